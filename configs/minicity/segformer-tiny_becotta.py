_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/becotta.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
# Made by segformer-tiny_becotta_warmup.py.
params = dict(
    type="becotta",
    weights="{{ fileDirname }}/../../checkpoints/becotta_tiny_minicity.safetensors",
)
# As far below TENT's step on this network as it is on SegFormer-B5.
method = dict(optimizer=dict(lr=8e-6))
