_base_ = [
    "../_base_/models/segformer_mit-b5_nvlabs.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/tent.py",
    "../_base_/runtime.py",
]
