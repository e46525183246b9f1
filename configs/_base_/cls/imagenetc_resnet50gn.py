# ResNet-50 with GroupNorm (timm's).
_base_ = "./imagenetc.py"
model = dict(type="resnet50_gn", pretrained=True)
