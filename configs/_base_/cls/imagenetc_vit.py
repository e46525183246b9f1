# ViT-B/16 (timm's). SAR takes a rate of 1e-4.
_base_ = "./imagenetc.py"
model = dict(type="vit_b16", pretrained=True)
