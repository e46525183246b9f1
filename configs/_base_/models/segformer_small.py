# A SegFormer of 3.4 million parameters for 512 x 256: MiT-B0 with a head of 128 channels.
_base_ = "mmseg::_base_/models/segformer_mit-b0.py"
norm_cfg = dict(type="BN", requires_grad=True)
model = dict(
    data_preprocessor=dict(size=(256, 512)),
    backbone=dict(drop_path_rate=0.0),
    decode_head=dict(channels=128, dropout_ratio=0.0, norm_cfg=norm_cfg),
)
