# SegFormer-B5 as mmseg defines it (the file inherited here is the common part of its B0 to B5).
_base_ = "mmseg::_base_/models/segformer_mit-b0.py"
model = dict(
    backbone=dict(embed_dims=64, num_layers=[3, 6, 40, 3]),
    decode_head=dict(in_channels=[64, 128, 320, 512]),
    test_cfg=dict(mode="whole"),
)
