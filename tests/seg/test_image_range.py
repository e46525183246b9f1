"""What the core makes of mmseg's preprocessors."""

import torch
from mmseg.models import SegDataPreProcessor

from mmseg_reservoir.core import ImageRange


def test_images_of_any_preprocessor_are_shown_to_the_style_encoder_alike():
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    pixels = torch.rand(1, 3, 8, 8) * 255  # BGR, as loaded
    standard = SegDataPreProcessor(mean=mean, std=std, bgr_to_rgb=True)
    expected = standard({"inputs": [pixels[0]]})["inputs"]
    assert ImageRange.of_preprocessor(standard).to_imagenet(expected) is expected
    for preprocessor in (
        SegDataPreProcessor(mean=[0, 0, 0], std=[255, 255, 255], bgr_to_rgb=True),
        SegDataPreProcessor(mean=mean[::-1], std=std[::-1]),
        SegDataPreProcessor(),
    ):
        inputs = preprocessor({"inputs": [pixels[0]]})["inputs"].float()
        seen = ImageRange.of_preprocessor(preprocessor).to_imagenet(inputs)
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)
