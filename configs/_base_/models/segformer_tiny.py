# A SegFormer small enough for two CPU cores: 1 million parameters, for MiniCity's 128 x 256.
_base_ = "mmseg::_base_/models/segformer_mit-b0.py"
norm_cfg = dict(type="BN", requires_grad=True)
model = dict(
    data_preprocessor=dict(size=(128, 256)),
    backbone=dict(
        embed_dims=24,
        num_layers=[2, 2, 2, 2],
        num_heads=[1, 2, 4, 6],
        sr_ratios=[4, 2, 2, 1],
        drop_path_rate=0.0,
    ),
    decode_head=dict(
        in_channels=[24, 48, 96, 144], channels=96, dropout_ratio=0.0, norm_cfg=norm_cfg
    ),
)
