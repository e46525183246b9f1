# A small vision transformer; its weights are in checkpoints/, reservoir train-digits made them.
_base_ = "../_base_/cls/digits.py"
model = dict(type="digits_vit", pretrained=True)

rows = dict(
    source=dict(),
    align=dict(),
    tent=dict(),
    eata=dict(method=dict(d_margin=0.4, fisher_alpha=1.0)),  # EATA's for CIFAR-10
    # DPCore's rule for prompts, here and below.
    dpcore=dict(
        method=dict(optimizer=dict(type="AdamW", lr=0.1, weight_decay=1e-5)),
        params=dict(type="prompt", count=8),
    ),
    vpt=dict(
        method=dict(optimizer=dict(type="AdamW", lr=0.1, weight_decay=1e-5)),
        params=dict(type="prompt", count=8),
    ),
)
