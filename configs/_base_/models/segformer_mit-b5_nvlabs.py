# SegFormer-B5 as NVlabs trained it: for their weights, converted by reservoir convert.
# The epsilons are theirs too: LayerNorms 1e-6 but for those behind a strided convolution.
_base_ = "./segformer_mit-b5.py"
model = dict(
    backbone=dict(
        type="NVlabsMixVisionTransformer", norm_cfg=dict(type="LN", eps=1e-6), embed_norm_eps=1e-5
    ),
    decode_head=dict(
        type="NVlabsSegformerHead",
        channels=768,
        norm_cfg=dict(type="BN", eps=1e-5, requires_grad=True),
    ),
)
