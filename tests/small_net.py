"""A small segmentation net, a small classifier, and methods around them, for tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from mmseg_reservoir.methods import Tent
from mmseg_reservoir.params import ParamSpace, norm_affine, read_batch_share, set_batch_share
from mmseg_reservoir.routing import InformationClustering, StyleRouter


def make_net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """A small segmentation net: (N, 3, H, W) -> (N, 5, H, W)."""
    torch.manual_seed(0)
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 5, 1),
        )
        .eval()
        .to(dtype)
    )


def make_classifier(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """A small classifier: (N, 3, H, W) -> (N, 5)."""
    torch.manual_seed(0)
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )
        .eval()
        .to(dtype)
    )


def make_method(
    cls=Tent,
    lr: float = 0.05,
    dtype: torch.dtype = torch.float32,
    supports: str = "pixels",
    statistics: str | float | None = None,
    optimizer: Callable | None = None,
    **options,
):
    """A method around a new small net; equal calls give equal methods.

    Args:
        cls: The method.
        lr: Learning rate of Adam.
        dtype: Of the net.
        supports: ``"pixels"`` for the segmentation net, ``"images"`` for the classifier.
        statistics: What BatchNorm normalizes by; None for the default of the method.
        optimizer: Makes another optimizer than Adam.
        **options: Of the method.
    """
    net = make_net(dtype) if supports == "pixels" else make_classifier(dtype)
    default = "batch" if supports == "images" else "running"
    set_batch_share(net, read_batch_share(statistics, cls.statistics or default))
    space = ParamSpace(net, norm_affine(net))
    return cls(net, space, optimizer or partial(torch.optim.Adam, lr=lr), **options)


def make_router(centroid: torch.Tensor, tau: float, k_max: int = 4, **options) -> StyleRouter:
    """A style router; options that it does not take are the clustering's."""
    names = ("memory", "assign", "learn_from", "learn_incomplete")
    own = {name: options.pop(name) for name in names if name in options}
    router = StyleRouter(InformationClustering(**options), k_max=k_max, **own)
    router.clustering.start(centroid)
    router.tau = tau
    return router
