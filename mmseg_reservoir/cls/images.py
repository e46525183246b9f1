"""What the images of a classifier's stream are, said once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class ImageRange:
    """Knows how images were normalised, and normalises them for VGG-19.

    Args:
        images: ``"unit"`` for values in [0, 1], ``"imagenet"``, or ``(mean, std)``, each one
            number or one per channel.
    """

    def __init__(self, images: str | tuple) -> None:
        known = {"unit": (0.0, 1.0), "imagenet": IMAGENET}
        found = known.get(images) if isinstance(images, str) else images
        if found is None or len(found) != 2:
            raise ReservoirError(
                f'images={images!r}: say "unit" for values in [0, 1], "imagenet", or (mean, std)'
            )
        self.unit = images == "unit"
        self.mean, self.std = (_per_channel(value) for value in found)

    def normalised(self, images: Tensor) -> Tensor:
        """The images as VGG-19 wants them."""
        if images.ndim != 4 or images.shape[1] != 3:
            raise ReservoirError(
                f"images must be (N, 3, H, W), got {tuple(images.shape)}: repeat a grey channel"
            )
        if self.unit and not (images.amin() >= -1e-3 and images.amax() <= 1 + 1e-3):
            raise ReservoirError(
                f'images="unit" promises values in [0, 1], got {float(images.amin()):.3g} to '
                f'{float(images.amax()):.3g}: divide by 255, or say images="imagenet" or '
                "images=(mean, std) if they are normalised"
            )
        mean, std = (_per_channel(value).to(images) for value in IMAGENET)
        return (images * self.std.to(images) + self.mean.to(images) - mean) / std


def first_images(batch: Any) -> Tensor:
    """The images of a batch that a loader made: a tensor, or the first one of a tuple."""
    images = batch[0] if isinstance(batch, (tuple, list)) else batch
    if not isinstance(images, Tensor):
        raise ReservoirError(
            f"a source batch must be a tensor of images, or a tuple that begins with one, got "
            f"{type(images).__name__}"
        )
    return images


def _per_channel(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
