# ResNet-50 (torchvision's first weights).
_base_ = "../_base_/cls/ccc.py"
model = dict(type="resnet50", pretrained=True)

rows = dict(
    source=dict(),
    tent=dict(),
    # CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
    cotta=dict(method=dict(type="cotta_images", confidence=0.1, restore=0.001)),
    rotta=dict(),
    eta=dict(),
    # SAR's code leaves the last stage alone.
    sar=dict(method=dict(optimizer=dict(nesterov=False)), params=dict(skip=("layer4",))),
    rdumb=dict(),
    petta=dict(),
    eata=dict(),
    roid=dict(method=dict(prior_correction=True)),
)
