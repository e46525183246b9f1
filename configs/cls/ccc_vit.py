# ViT-B/16 (timm's), with another learning rate.
_base_ = "../_base_/cls/ccc.py"
model = dict(type="vit_b16", pretrained=True)
method = dict(optimizer=dict(lr=1e-4))

rows = dict(
    source=dict(),
    tent=dict(),
    # CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
    cotta=dict(method=dict(type="cotta_images", confidence=0.1, restore=0.001)),
    eta=dict(),
    cola=dict(),
    sar=dict(
        method=dict(optimizer=dict(nesterov=False)),
        # SAR's code leaves the last blocks alone.
        params=dict(skip=("blocks.9", "blocks.10", "blocks.11", "norm")),
    ),
    rdumb=dict(),
    eata=dict(),
    roid=dict(method=dict(prior_correction=True)),
    # DPCore's rule for prompts, here and below.
    dpcore=dict(
        method=dict(limit=2000, optimizer=dict(type="AdamW", lr=0.1, weight_decay=1e-5)),
        params=dict(type="prompt", count=8),
    ),
    vpt=dict(
        method=dict(optimizer=dict(type="AdamW", lr=0.1, weight_decay=1e-5)),
        params=dict(type="prompt", count=8),
    ),
)
