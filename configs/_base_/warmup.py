# BECoTTA's warm-up on the source (reservoir warmup): what is trained, and how.
custom_imports = dict(imports=["mmseg_reservoir.seg"], allow_failed_imports=False)
default_scope = "mmseg"
randomness = dict(seed=0)
env_cfg = dict(cudnn_benchmark=False, mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0))

warmup = dict(
    variant="S",  # S, M, L or dict(experts=, top_k=, ranks=)
    domains=["clear", "fog", "night", "rain", "snow"],
    discriminator_weight=1.0,
    information_weight=0.05,
    seed=0,
)
iterations = 600
train_cfg = dict(type="IterBasedTrainLoop", max_iters=iterations)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="AdamW", lr=3e-3, weight_decay=0.0),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, by_epoch=False, begin=0, end=20),
    dict(type="CosineAnnealingLR", eta_min=0.0, by_epoch=False, begin=20, end=iterations),
]
default_hooks = dict(
    logger=dict(type="LoggerHook", interval=20, log_metric_by_epoch=False),
    checkpoint=dict(type="CheckpointHook", by_epoch=False, interval=100, max_keep_ckpts=1),
)
log_processor = dict(by_epoch=False)
