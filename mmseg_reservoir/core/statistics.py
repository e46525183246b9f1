"""Channel statistics of a feature map ``(N, C, H, W)``: what a style is made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_SMALLEST_VARIANCE = 1e-8  # a constant image has variance 0; its style must stay finite
_SMOOTHING = 1e-5  # of the published mean_var


def logvar(features: Tensor) -> Tensor:
    """Log of the unbiased variance over batch and space: the paper's choice, ``(C,)``."""
    return var(features).clamp_min(_SMALLEST_VARIANCE).log()


def var(features: Tensor) -> Tensor:
    """The unbiased variance over batch and space, ``(C,)``."""
    return features.var(dim=(0, 2, 3))


def mean(features: Tensor) -> Tensor:
    """The mean over batch and space, ``(C,)``."""
    return features.mean(dim=(0, 2, 3))


def mean_var(features: Tensor) -> Tensor:
    """Mean and log-variance over space of every image, averaged over the batch, ``(2 C,)``."""
    variance = (features.var(dim=(2, 3)) + _SMOOTHING).log()
    return torch.cat([features.mean(dim=(2, 3)), variance], dim=1).mean(dim=0)


def gram(features: Tensor) -> Tensor:
    """The diagonal of the Gram matrix: sums of squares over space, averaged, ``(C,)``."""
    return features.square().sum(dim=(2, 3)).mean(dim=0)


STATISTICS: dict[str, Callable[[Tensor], Tensor]] = {
    "logvar": logvar,
    "mean": mean,
    "var": var,
    "mean_var": mean_var,
    "gram": gram,
}
