_base_ = [
    "../_base_/models/efficientvit_b0.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/eata.py",
    "../_base_/runtime.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/efficientvit_b0_cityscapes.safetensors"
# A network of 0.7 M parameters needs larger steps than SegFormer-B5 does.
method = dict(optimizer=dict(lr=1e-4))
