# Shared by every adaptation run. Each hook can be left out.
custom_imports = dict(imports=["mmseg_reservoir.seg"], allow_failed_imports=False)
custom_hooks = [
    dict(type="StrictCheckpointHook"),  # a checkpoint that does not fit is an error
    dict(type="AdaptationHook"),  # wraps the loaded model by method, params and reservoir
    dict(type="ProgressHook"),
    dict(type="ResultsHook"),  # results.json, results.csv, the table
    dict(type="ResumeHook", minutes=10.0),  # saves states for --resume
]
default_hooks = dict(logger=None)  # ProgressHook takes its place

# What adapts: the affine parameters of the backbone's normalization layers, as in the paper.
params = dict(type="norm_affine", under="backbone")
# `reservoir = dict(...)` (see ../_base_/reservoir) puts ReservoirTTA around the method, None or
# nothing leaves the plain method.

default_scope = "mmseg"
env_cfg = dict(cudnn_benchmark=False, mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0))
randomness = dict(seed=0)
# TensorBoard or W&B: append dict(type="TensorboardVisBackend") or dict(type="WandbVisBackend").
visualizer = dict(type="SegLocalVisualizer", vis_backends=[dict(type="LocalVisBackend")])
log_level = "INFO"
load_from = None
