_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
# CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
method = dict(type="cotta_images", confidence=0.72, restore=0.01)
