# Trains the tiny SegFormer on MiniCity's clear images:
#   reservoir minicity data/minicity
#   reservoir train configs/minicity/segformer-tiny_train.py \
#       --export checkpoints/segformer_tiny_minicity.safetensors
_base_ = ["../_base_/models/segformer_tiny.py", "../_base_/datasets/minicity.py"]
custom_imports = dict(imports=["mmseg_reservoir.seg"], allow_failed_imports=False)
default_scope = "mmseg"
randomness = dict(seed=0)
env_cfg = dict(cudnn_benchmark=False, mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0))
iterations = 5000

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=(256, 128), ratio_range=(0.8, 1.6), keep_ratio=True),
    dict(type="RandomCrop", crop_size=(128, 256), cat_max_ratio=0.9),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    batch_size=8,
    num_workers=1,
    persistent_workers=True,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        type="ACDCDataset",
        data_root={{_base_.data_root}},
        condition="clear",
        split="train",
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="ACDCDataset",
        data_root={{_base_.data_root}},
        condition="clear",
        split="val",
        pipeline={{_base_.test_pipeline}},
    ),
)
val_evaluator = dict(type="IoUMetric", iou_metrics=["mIoU"])

train_cfg = dict(type="IterBasedTrainLoop", max_iters=iterations, val_interval=1000)
val_cfg = dict(type="ValLoop")
test_dataloader = None
test_evaluator = None

optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.01),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, by_epoch=False, begin=0, end=200),
    dict(type="CosineAnnealingLR", eta_min=1e-6, by_epoch=False, begin=200, end=iterations),
]
default_hooks = dict(
    logger=dict(type="LoggerHook", interval=100, log_metric_by_epoch=False),
    checkpoint=dict(type="CheckpointHook", by_epoch=False, interval=1000, max_keep_ckpts=1),
)
log_processor = dict(by_epoch=False)
