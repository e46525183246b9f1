_base_ = [
    "../_base_/models/segformer_mit-b5_nvlabs.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/becotta.py",
    "../_base_/runtime.py",
]
# Made by reservoir warmup configs/acdc/segformer-b5_becotta_warmup.py.
params = dict(type="becotta", weights="checkpoints/becotta_b5_cityscapes.safetensors")
