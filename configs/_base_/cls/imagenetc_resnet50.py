# ResNet-50 (torchvision's first weights).
_base_ = "./imagenetc.py"
model = dict(type="resnet50", pretrained=True)
