"""The normalization of images, its inverse, and checks of the value range."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import NotFiniteError, ReservoirError

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of RGB values in [0, 1] that VGG-19 expects."""

_SLACK = 1e-3
_WILD = 1.0
"""Tolerance around [0, 1] after normalization, since resizing and noise overshoot."""


class ImageRange:
    """The normalization of images.

    Args:
        images: Normalization of the images: ``"unit"`` (values in [0, 1]), ``"imagenet"``, or
            ``(mean, std)`` of values in [0, 1], each one number or one per channel.
        bgr: Whether the channels are in OpenCV's order. Defaults to False.
    """

    def __init__(self, images: str | Sequence[float | Sequence[float]], bgr: bool = False) -> None:
        named: dict[str, Sequence[float | Sequence[float]]] = {
            "unit": (0.0, 1.0),
            "imagenet": IMAGENET,
        }
        pair = named.get(images) if isinstance(images, str) else images
        if pair is None or len(pair) != 2:
            raise ReservoirError(
                f'images={images!r}: use "unit" for values in [0, 1], "imagenet", or (mean, std)'
            )
        self.unit = images == "unit"
        self.bgr = bgr
        self.mean, self.std = (_per_channel(value) for value in pair)
        wanted = [_per_channel(value) for value in IMAGENET]
        self._is_imagenet = not bgr and all(
            _are_close(ours, theirs)
            for ours, theirs in zip((self.mean, self.std), wanted, strict=True)
        )

    @classmethod
    def of_pixels(cls, mean: Tensor | None, std: Tensor | None, bgr: bool) -> ImageRange:
        """Return the range of images that had values of 0 to 255 before normalization.

        Args:
            mean: Subtracted mean by channel; None for values of 0 to 255.
            std: Standard deviation by channel, the divisor.
            bgr: Whether the channels are in OpenCV's order.
        """
        if mean is None or std is None:
            return cls((0.0, 1 / 255), bgr)
        mean, std = (value.cpu().flatten() / 255 for value in (mean, std))
        return cls((mean.tolist(), std.tolist()), bgr)

    def to_unit(self, images: Tensor) -> Tensor:
        """Return RGB images in [0, 1]."""
        images = images * self.std.to(images) + self.mean.to(images)
        return images.flip(1) if self.bgr else images

    def from_unit(self, images: Tensor) -> Tensor:
        """Undo :meth:`to_unit`."""
        images = images.flip(1) if self.bgr else images
        return (images - self.mean.to(images)) / self.std.to(images)

    def to_imagenet(self, images: Tensor) -> Tensor:
        """Return images normalized as VGG-19 expects them."""
        if images.ndim != 4 or images.shape[1] != 3:
            raise ReservoirError(
                f"images must be (N, 3, H, W) for their style to be looked at, got "
                f"{tuple(images.shape)}: repeat a grey channel"
            )
        if self._is_imagenet:
            return images
        mean, std = (_per_channel(value).to(images) for value in IMAGENET)
        return (self.to_unit(images) - mean) / std

    def check(self, images: Tensor) -> None:
        """Raise an error for images outside this range."""
        self.check_extremes(extremes(images).cpu())

    def check_extremes(self, values: Tensor) -> None:
        """Raise an error for :func:`extremes` outside this range; they must be on the host."""
        refuse_not_finite(values)
        low, high = float(values.amin()), float(values.amax())
        if self.unit and not (low >= -_SLACK and high <= 1 + _SLACK):
            raise ReservoirError(
                f'images="unit" promises values in [0, 1], got {low:.3g} to {high:.3g}: divide by '
                '255, or use images="imagenet" or images=(mean, std) if they are normalized'
            )
        plain = self.to_unit(values[:, :, None, None])
        low, high = float(plain.amin()), float(plain.amax())
        if not (low >= -_WILD and high <= 1 + _WILD):
            raise ReservoirError(
                f"without their normalization the images have values from {low:.3g} to "
                f"{high:.3g} instead of [0, 1]: normalize them as images=... states"
            )


def extremes(images: Tensor) -> Tensor:
    """Return the smallest and the largest value of every channel, as rows of ``(2, C)``.

    They show whether images ``(N, C, H, W)`` are finite, in range and not constant. All three cost
    one transfer from the device. A NaN makes both values of its channel NaN.
    """
    return torch.stack([images.amin(dim=(0, 2, 3)), images.amax(dim=(0, 2, 3))])


def refuse_not_finite(values: Tensor) -> None:
    """Raise an error if the :func:`extremes` of images are NaN or infinite."""
    if not torch.isfinite(values).all():
        raise NotFiniteError("the batch holds NaN or infinite values: fix or drop its images")


def _are_close(one: Tensor, other: Tensor) -> bool:
    one, other = torch.broadcast_tensors(one, other)
    return torch.allclose(one, other, rtol=1e-4)


def _per_channel(value: float | Sequence[float]) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
