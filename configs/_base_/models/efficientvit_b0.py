# EfficientViT-Seg-B0, 0.7 million parameters: the network of the bundled Cityscapes checkpoint.
model = dict(
    type="EncoderDecoder",
    data_preprocessor=dict(
        type="SegDataPreProcessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_val=0,
        seg_pad_val=255,
    ),
    backbone=dict(type="EfficientViT"),
    decode_head=dict(
        type="EfficientViTHead",
        in_channels=[32, 64, 128],
        in_index=[1, 2, 3],
        channels=128,
        num_classes=19,
        dropout_ratio=0.0,
        align_corners=False,
    ),
    test_cfg=dict(mode="whole"),
)
