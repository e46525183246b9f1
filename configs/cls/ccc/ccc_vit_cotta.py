_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/ccc_vit.py"]
# The paper's CoTTA*: affine parameters only, without the restoration.
method = dict(type="cotta_images")
