_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/tent.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
# A network of 1 M parameters needs larger steps than SegFormer-B5 does.
method = dict(optimizer=dict(lr=1e-4))
