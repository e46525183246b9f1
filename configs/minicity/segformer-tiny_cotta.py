_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/cotta.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
# The step of TENT on this network, as both have the same one on SegFormer-B5. Four views instead of
# fourteen, for two CPU cores: without `ratios` they are the original ones, at eight times the cost.
method = dict(optimizer=dict(lr=1e-4), ratios=[0.75, 1.0])
