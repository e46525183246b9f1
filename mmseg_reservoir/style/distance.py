"""How far apart styles are: strategies for the distance of styles and centroids."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import register

Distance = Callable[[Tensor, Tensor], Tensor]
"""``(n, d), (K, d) -> (n, K)``."""


@register("distance", "euclidean")
def euclidean(styles: Tensor, centroids: Tensor) -> Tensor:
    """``||s - c||``, as in the paper."""
    # The matrix-product form loses digits for near points, and K is small.
    return torch.cdist(styles, centroids, compute_mode="donot_use_mm_for_euclid_dist")


@register("distance", "cosine")
def cosine(styles: Tensor, centroids: Tensor) -> Tensor:
    """``1 - cos(s, c)``, between 0 and 2."""
    return 1 - F.normalize(styles, dim=1) @ F.normalize(centroids, dim=1).T


@register("distance", "kl")
def kullback_leibler(styles: Tensor, centroids: Tensor) -> Tensor:
    """``KL(softmax(s) || softmax(c))``: styles as distributions over channels.

    The paper does not say how it makes distributions of styles; the softmax works for every
    statistic.
    """
    log_p, log_q = styles.log_softmax(dim=1), centroids.log_softmax(dim=1)
    p = log_p.exp()
    return ((p * log_p).sum(dim=1, keepdim=True) - p @ log_q.T).clamp_min(0)
