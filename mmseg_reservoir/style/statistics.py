"""Channel statistics of a feature map ``(N, C, H, W)``: what a style is made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..registry import find, register

Statistic = Callable[[Tensor], Tensor]
"""From features ``(N, C, H, W)`` to one vector, as long as ``C`` makes it."""

SMALLEST_VARIANCE = 1e-8  # a constant image has variance 0; its style must stay finite
SMOOTHING = 1e-5  # of the published mean_var
_BLOCK = 2048  # pixels of up to 512 channels: a few hundred KB


@register("statistic", "logvar")
def logvar(features: Tensor) -> Tensor:
    """Log of the unbiased variance over batch and space: the paper's choice, ``(C,)``."""
    return var(features).clamp_min(SMALLEST_VARIANCE).log()


@register("statistic", "var")
def var(features: Tensor) -> Tensor:
    """The unbiased variance over batch and space, ``(C,)``."""
    pixels = _pixels_by_channel(features)
    if pixels is None:
        return features.var(dim=(0, 2, 3))
    return _moments(pixels.flatten(0, 1)[None])[1][0]


@register("statistic", "mean")
def mean(features: Tensor) -> Tensor:
    """The mean over batch and space, ``(C,)``."""
    return features.mean(dim=(0, 2, 3))


@register("statistic", "mean_var")
def mean_var(features: Tensor) -> Tensor:
    """Mean and log-variance over space of every image, averaged over the batch, ``(2 C,)``."""
    means, variances = image_moments(features)
    return torch.cat([means, (variances + SMOOTHING).log()], dim=1).mean(dim=0)


def image_moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased variance over space of every image and channel, both ``(N, C)``."""
    pixels = _pixels_by_channel(features)
    if pixels is None:
        return features.mean(dim=(2, 3)), features.var(dim=(2, 3))
    return _moments(pixels)


def _pixels_by_channel(features: Tensor) -> Tensor | None:
    """Features ``(N, H W, C)`` without a copy, if they lie so in memory; else None."""
    if not features.is_contiguous(memory_format=torch.channels_last):
        return None
    return features.permute(0, 2, 3, 1).flatten(1, 2)


def _moments(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased variance of pixels ``(N, P, C)`` over ``P``, both ``(N, C)``.

    torch's own variance goes through its input number by number, which takes longer than some of
    VGG's convolutions. Deviations from a known mean are no less exact, and those of a block of
    pixels stay in the cache.
    """
    mean = pixels.mean(dim=1, keepdim=True)
    square = torch.zeros_like(mean[:, 0])
    for block in pixels.split(max(1, _BLOCK // len(pixels)), dim=1):
        square += (block - mean).square_().sum(dim=1)
    return mean[:, 0], square / (pixels.shape[1] - 1)


@register("statistic", "gram")
def gram(features: Tensor) -> Tensor:
    """The diagonal of the Gram matrix: sums of squares over space, averaged, ``(C,)``."""
    return features.square().sum(dim=(2, 3)).mean(dim=0)


def find_statistic(statistic: str | Statistic) -> Statistic:
    """The statistic of a name; a function is taken as it is."""
    function = find("statistic", statistic)
    if not callable(function):
        raise ReservoirError(
            f"the style statistic must be a name or a function of features, got {function!r}"
        )
    return function


def name_of(statistic: Statistic) -> str:
    """What tells a statistic from others."""
    # Without a name, as a partial, it may have a repr for this run only: then it equals no other.
    return getattr(statistic, "__name__", None) or repr(statistic)


def length_of(statistic: Statistic, channels: int) -> int:
    """How many numbers a statistic makes of features with so many channels: by trying it."""
    generator = torch.Generator().manual_seed(0)  # torch's own stays as it is
    vector = statistic(torch.randn(2, channels, 8, 8, generator=generator))
    if not isinstance(vector, Tensor) or vector.ndim != 1:
        shape = tuple(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
        raise ReservoirError(
            f"the style statistic {name_of(statistic)!r} makes {shape} of features "
            f"(2, {channels}, 8, 8): let it return one vector, over all images and places"
        )
    return len(vector)
