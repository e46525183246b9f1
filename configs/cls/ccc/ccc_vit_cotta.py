_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/ccc_vit.py"]
# CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
method = dict(type="cotta_images", confidence=0.1, restore=0.001)
