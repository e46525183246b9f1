# ACDC (1080 x 1920) at half size, one image at a time; the source is Cityscapes.
data_root = "data/acdc"
test_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="Resize", scale=(960, 540), keep_ratio=True),
    # After Resize: labels stay at full size, where they are scored.
    dict(type="LoadAnnotations"),
    dict(type="PackSegInputs"),
]
test_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="ACDCDataset",
        data_root=data_root,
        condition="fog",  # the protocol sets this for every visit
        split="train",  # 400 images per condition, as in CoTTA's protocol
        pipeline=test_pipeline,
    ),
)
test_evaluator = dict(type="IoUMetric", iou_metrics=["mIoU"])
# Unlabeled images of the source domain, by which the reservoir recognizes what is new.
source_images = dict(
    data_root="data/cityscapes/leftImg8bit/train",
    img_suffix="_leftImg8bit.png",
    num_images=2000,  # evenly spaced over the sorted names
)
