"""Channel statistics of feature maps, which form a style, and distances of styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import ReservoirError
from ..option_types import Registered
from ..registry import find, register

Statistic = Callable[[Tensor], Tensor]
"""Function from features ``(N, C, H, W)`` to one vector."""

Distance = Callable[[Tensor, Tensor], Tensor]
"""Function of styles ``(n, d)`` and centroids ``(K, d)``, to distances ``(n, K)``."""

StatisticOption = Annotated[str | Statistic, Registered("statistic")]
DistanceOption = Annotated[str | Distance, Registered("distance")]

SMALLEST_VARIANCE = 1e-8  # a constant image has variance 0; its style must stay finite
SMOOTHING = 1e-5  # of the published mean_var
_BLOCK = 2048  # pixels of up to 512 channels: a few hundred KB


@register("statistic", "logvar")
def logvar(features: Tensor) -> Tensor:
    """Return the log of the variance over batch and space, the paper's choice, ``(C,)``."""
    return var(features).clamp_min(SMALLEST_VARIANCE).log()


@register("statistic", "var")
def var(features: Tensor) -> Tensor:
    """Return the unbiased variance over batch and space, ``(C,)``."""
    pixels = _pixels_by_channel(features)
    if pixels is None:
        return features.var(dim=(0, 2, 3))
    return _moments(pixels.flatten(0, 1)[None])[1][0]


@register("statistic", "mean")
def mean(features: Tensor) -> Tensor:
    """Return the mean over batch and space, ``(C,)``."""
    return features.mean(dim=(0, 2, 3))


@register("statistic", "mean_var")
def mean_var(features: Tensor) -> Tensor:
    """Return mean and log-variance over space, averaged over the images, ``(2 C,)``."""
    means, variances = image_moments(features)
    return torch.cat([means, (variances + SMOOTHING).log()], dim=1).mean(dim=0)


def image_moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and unbiased variance over space, by image and channel, both ``(N, C)``."""
    pixels = _pixels_by_channel(features)
    if pixels is None:
        return features.mean(dim=(2, 3)), features.var(dim=(2, 3))
    return _moments(pixels)


def _pixels_by_channel(features: Tensor) -> Tensor | None:
    """Return a view ``(N, H W, C)`` of channels-last features; None for other layouts."""
    if not features.is_contiguous(memory_format=torch.channels_last):
        return None
    return features.permute(0, 2, 3, 1).flatten(1, 2)


def _moments(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and unbiased variance of pixels ``(N, P, C)`` over ``P``, both ``(N, C)``.

    torch's variance would take longer than some of VGG's convolutions. Blocks of deviations from
    the mean fit into the processor's cache, and are as exact.
    """
    mean = pixels.mean(dim=1, keepdim=True)
    square = torch.zeros_like(mean[:, 0])
    for block in pixels.split(max(1, _BLOCK // len(pixels)), dim=1):
        square += (block - mean).square_().sum(dim=1)
    return mean[:, 0], square / (pixels.shape[1] - 1)


@register("statistic", "gram")
def gram(features: Tensor) -> Tensor:
    """Return the Gram matrix's diagonal: squares summed over space, batch mean, ``(C,)``."""
    return features.square().sum(dim=(2, 3)).mean(dim=0)


def find_statistic(statistic: str | Statistic) -> Statistic:
    """Return the statistic with a name, or the given function unchanged."""
    function = find("statistic", statistic)
    if not callable(function):
        raise ReservoirError(
            f"the style statistic must be a name or a function of features, got {function!r}"
        )
    result: Statistic = function
    return result


def name_of(statistic: Statistic) -> str:
    """Return the name that identifies a statistic."""
    # A partial has no name. Its repr may change between runs, and then matches no earlier one.
    return getattr(statistic, "__name__", None) or repr(statistic)


def length_of(statistic: Statistic, channels: int) -> int:
    """Return the length of a statistic's vector for a number of channels, by a trial run."""
    generator = torch.Generator().manual_seed(0)  # leaves torch's global generator alone
    vector = statistic(torch.randn(2, channels, 8, 8, generator=generator))
    if not isinstance(vector, Tensor) or vector.ndim != 1:
        shape = tuple(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
        raise ReservoirError(
            f"the style statistic {name_of(statistic)!r} returns {shape} for features "
            f"(2, {channels}, 8, 8): let it return one vector, over all images and positions"
        )
    return len(vector)


@register("distance", "euclidean")
def euclidean(styles: Tensor, centroids: Tensor) -> Tensor:
    """Return ``||s - c||``, as in the paper."""
    # The matrix-product form loses digits for near points, and K is small.
    return torch.cdist(styles, centroids, compute_mode="donot_use_mm_for_euclid_dist")


@register("distance", "cosine")
def cosine(styles: Tensor, centroids: Tensor) -> Tensor:
    """Return ``1 - cos(s, c)``, between 0 and 2."""
    return 1 - F.normalize(styles, dim=1) @ F.normalize(centroids, dim=1).T


@register("distance", "kl")
def kullback_leibler(styles: Tensor, centroids: Tensor) -> Tensor:
    """Return ``KL(softmax(s) || softmax(c))``, styles as distributions over channels.

    The paper does not define these distributions; the softmax works for every statistic.
    """
    log_p, log_q = styles.log_softmax(dim=1), centroids.log_softmax(dim=1)
    p = log_p.exp()
    return ((p * log_p).sum(dim=1, keepdim=True) - p @ log_q.T).clamp_min(0)
