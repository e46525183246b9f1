# CoTTA's teacher and labels, but LoRA factors adapt.
_base_ = "./segformer-tiny_cotta.py"
params = dict(type="lora", rank=4, alpha=8.0, average="factors")  # or average="product"
