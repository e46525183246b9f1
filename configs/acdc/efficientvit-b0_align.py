_base_ = [
    "../_base_/models/efficientvit_b0.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/align.py",
    "../_base_/reservoir/robust.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/efficientvit_b0_cityscapes.safetensors"
