# Warms BECoTTA up on MiniCity's clear images (20 minutes on one thread of a busy machine):
#   reservoir minicity data/minicity
#   reservoir warmup configs/minicity/segformer-tiny_becotta_warmup.py \
#       --export checkpoints/becotta_tiny_minicity.safetensors
_base_ = [
    "../_base_/models/segformer_tiny.py",
    "../_base_/datasets/minicity.py",
    "../_base_/warmup.py",
]
load_from = "{{ fileDirname }}/../../checkpoints/segformer_tiny_minicity.safetensors"
warmup = dict(variant="M")

clear = dict(type="ACDCDataset", data_root={{_base_.data_root}}, condition="clear")
train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=(256, 128), ratio_range=(0.8, 1.6), keep_ratio=True),
    dict(type="RandomCrop", crop_size=(128, 256), cat_max_ratio=0.9),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    batch_size=5,  # an image per domain
    num_workers=0,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(**clear, split="train", pipeline=train_pipeline),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(**clear, split="val", pipeline={{_base_.test_pipeline}}),
)
