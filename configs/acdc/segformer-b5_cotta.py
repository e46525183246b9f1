_base_ = [
    "../_base_/models/segformer_mit-b5_nvlabs.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/protocols/recurring.py",
    "../_base_/methods/cotta.py",
    "../_base_/runtime.py",
]
# Labels are made at 1920 x 1080, the size at which they are scored.
method = dict(label_scale=2.0)
