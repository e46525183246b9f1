# CoTTA's teacher and labels, but LoRA factors adapt. The paper does not name the loss of its LoRA
# row; its figures at the first visit are those of CoTTA* + Reservoir, not TENT's.
_base_ = "./segformer-b5_cotta.py"
params = dict(type="lora", rank=4, alpha=8.0, average="factors")  # or average="product"
