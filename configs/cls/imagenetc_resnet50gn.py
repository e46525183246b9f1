# ResNet-50 with GroupNorm (timm's).
_base_ = "../_base_/cls/imagenetc.py"
model = dict(type="resnet50_gn", pretrained=True)

rows = dict(
    source=dict(),
    tent=dict(),
    # CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
    cotta=dict(method=dict(type="cotta_images", confidence=0.1, restore=0.001)),
    eta=dict(),
    # SAR's code leaves the last stage alone.
    sar=dict(method=dict(optimizer=dict(nesterov=False)), params=dict(skip=("layer4",))),
    rdumb=dict(),
    eata=dict(),
    roid=dict(method=dict(prior_correction=True)),
)
