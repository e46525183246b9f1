_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/align.py",
    "../_base_/reservoir/robust_128x256.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
