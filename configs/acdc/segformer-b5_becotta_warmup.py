# Warms BECoTTA up on Cityscapes' labeled training images, in synthetic weather. Not run here, for
# lack of the data and a GPU; the schedule is a guess (MiniCity's, with a smaller step).
#   reservoir warmup configs/acdc/segformer-b5_becotta_warmup.py CHECKPOINT \
#       --export checkpoints/becotta_b5_cityscapes.safetensors
_base_ = [
    "../_base_/models/segformer_mit-b5_nvlabs.py",
    "../_base_/datasets/acdc_960x540.py",
    "../_base_/warmup.py",
]
warmup = dict(variant="S")
optim_wrapper = dict(optimizer=dict(lr=5e-4))

clear = dict(type="CityscapesDataset", data_root="data/cityscapes")
train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=(2048, 1024), ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type="RandomCrop", crop_size=(512, 1024), cat_max_ratio=0.75),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    batch_size=5,  # an image per domain
    num_workers=4,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        **clear,
        data_prefix=dict(img_path="leftImg8bit/train", seg_map_path="gtFine/train"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        **clear,
        data_prefix=dict(img_path="leftImg8bit/val", seg_map_path="gtFine/val"),
        pipeline=[
            dict(type="LoadImageFromFile"),
            dict(type="LoadAnnotations"),
            dict(type="PackSegInputs"),
        ],
    ),
)
