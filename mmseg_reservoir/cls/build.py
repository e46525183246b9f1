"""From names and options to an adaptation method around a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from ..core.params import use_batch_statistics
from ..errors import ReservoirError
from ..methods import METHODS, AdaptationMethod, OptimizerFactory, find_method
from ..options import choose, construct
from ..spaces import build_space
from .images import ImageRange

OPTIMIZERS = {
    name: cls
    for name, cls in vars(torch.optim).items()
    if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)
}
for _no_plain_step in ("Optimizer", "LBFGS", "SparseAdam"):
    del OPTIMIZERS[_no_plain_step]


def build_method(
    net: nn.Module,
    method: str | Mapping[str, Any],
    optimizer: Mapping[str, Any] | OptimizerFactory | None = None,
    params: Mapping[str, Any] | None = None,
    batch_statistics: bool | None = None,
    images: ImageRange | None = None,
    seed: int = 0,
) -> AdaptationMethod:
    """The method over the selected parameters of a net; see :class:`AdaptiveClassifier`."""
    options = {"type": method} if isinstance(method, str) else dict(method)
    name = options.pop("type", None)
    if name is None:
        raise ReservoirError(f"the method has no type: write dict(type=NAME, ...), got {method!r}")
    cls = find_method(name)
    if "images" not in cls.handles:
        near = f"{name}_images"
        other = f"use {near!r}" if near in METHODS else "choose another one"
        raise ReservoirError(f"the method {name!r} is for segmentation, not for images: {other}")
    if cls.batch_statistics if batch_statistics is None else batch_statistics:
        use_batch_statistics(net)
    if images is not None and "augment" in signature(cls).parameters:
        known = {"mean": images.mean.flatten().tolist(), "std": images.std.flatten().tolist()}
        options["augment"] = known | dict(options.get("augment") or {})
    if "seed" in signature(cls).parameters:
        options.setdefault("seed", seed)
    space = build_space(net, params or {}, seed)
    fixed: dict[str, Any] = {"forward": partial(classify, net), "space": space}
    fixed["optimizer"] = build_optimizer(optimizer or {"type": "Adam", "lr": 1e-3})
    return construct(cls, options, "method", **fixed)


def build_optimizer(optimizer: Mapping[str, Any] | OptimizerFactory) -> OptimizerFactory:
    """A maker of optimizers from ``dict(type="Adam", lr=...)``, or the one that is given."""
    if callable(optimizer):
        return optimizer
    options = {"type": optimizer} if isinstance(optimizer, str) else dict(optimizer)
    cls = choose(options.pop("type", "Adam"), OPTIMIZERS, "optimizer")

    def make(tensors: list[Tensor]) -> torch.optim.Optimizer:
        try:
            return construct(cls, options, "optimizer", params=tensors)
        except ReservoirError:
            raise
        except (TypeError, ValueError) as error:  # of torch, about values
            raise ReservoirError(f"optimizer {cls.__name__}: {error}") from error

    return make


def classify(net: nn.Module, images: Tensor) -> Tensor:
    """Logits ``(N, C)``, also of nets that return them inside of something."""
    found = net(images)
    if isinstance(found, Mapping):
        found = found.get("logits")
    elif isinstance(found, (tuple, list)):
        found = found[0]
    found = getattr(found, "logits", found)
    if not isinstance(found, Tensor) or found.ndim != 2:
        what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ReservoirError(
            f"{type(net).__name__} must return logits (N, C), got {what}: wrap it in a module that "
            "returns them"
        )
    return found
