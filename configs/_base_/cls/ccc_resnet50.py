# ResNet-50 (torchvision's first weights).
_base_ = "./ccc.py"
model = dict(type="resnet50", pretrained=True)
