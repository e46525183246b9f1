"""Channel statistics of a feature map ``(N, C, H, W)``: what a style is made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import find, register

Statistic = Callable[[Tensor], Tensor]
"""From features ``(N, C, H, W)`` to one vector, as long as ``C`` makes it."""

_SMALLEST_VARIANCE = 1e-8  # a constant image has variance 0; its style must stay finite
_SMOOTHING = 1e-5  # of the published mean_var


@register("statistic", "logvar")
def logvar(features: Tensor) -> Tensor:
    """Log of the unbiased variance over batch and space: the paper's choice, ``(C,)``."""
    return var(features).clamp_min(_SMALLEST_VARIANCE).log()


@register("statistic", "var")
def var(features: Tensor) -> Tensor:
    """The unbiased variance over batch and space, ``(C,)``."""
    return features.var(dim=(0, 2, 3))


@register("statistic", "mean")
def mean(features: Tensor) -> Tensor:
    """The mean over batch and space, ``(C,)``."""
    return features.mean(dim=(0, 2, 3))


@register("statistic", "mean_var")
def mean_var(features: Tensor) -> Tensor:
    """Mean and log-variance over space of every image, averaged over the batch, ``(2 C,)``."""
    variance = (features.var(dim=(2, 3)) + _SMOOTHING).log()
    return torch.cat([features.mean(dim=(2, 3)), variance], dim=1).mean(dim=0)


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
