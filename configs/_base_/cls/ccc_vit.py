# ViT-B/16 (timm's), with a rate of its own.
_base_ = "./ccc.py"
model = dict(type="vit_b16", pretrained=True)
method = dict(optimizer=dict(lr=1e-4))
