_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/eata.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
# The step of TENT on this network.
method = dict(optimizer=dict(lr=1e-4))
