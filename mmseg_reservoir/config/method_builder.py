"""Resolve and check the options of a method, its adapted parameters and its optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..params.base import ParamSpace
from ..params.normalization import read_batch_share, set_batch_share
from ..registry import parameters_of, table
from .schema import Options, PartSpec, pick

if TYPE_CHECKING:
    from .builder import Task, TaskContext

_NO_PLAIN_STEP = ("Optimizer", "LBFGS", "SparseAdam")

for _name, _cls in vars(torch.optim).items():
    is_optimizer = isinstance(_cls, type) and issubclass(_cls, torch.optim.Optimizer)
    if is_optimizer and _name not in _NO_PLAIN_STEP:
        table("optimizer")[_name] = _cls  # without register(), which would change torch's classes


class MethodBuilder:
    """The options of a method, its adapted parameters and its optimizer."""

    def __init__(
        self,
        task: Task,
        method: Options | str,
        params: Options | None,
        statistics: Any,
        seed: int,
    ) -> None:
        options = {"type": method} if isinstance(method, str) else dict(method)
        optimizer: Any = options.pop("optimizer", None)
        injected = ("forward", "space", "optimizer")
        self.method = pick("method", options, "method", "", injected, {"seed": seed})
        _check_task(self.method, task)
        self.optimizer: PartSpec | Callable[..., Any] | None = optimizer
        default = parameters_of(self.method.factory)["optimizer"].default
        if not callable(optimizer):
            needs_one = optimizer or default is inspect.Parameter.empty
            self.optimizer = _pick_optimizer(optimizer or task.optimizer) if needs_one else None
        defaults = {"seed": seed, "under": task.under}
        self.params = pick("params", params, "params", "norm_affine", ("model",), defaults)
        statistics_default = self.method.factory.statistics or task.statistics
        self.batch_share = read_batch_share(statistics, statistics_default)

    def resolved_options(self) -> dict[str, Any]:
        method, optimizer = self.method.resolved_options(), self.optimizer
        if isinstance(optimizer, PartSpec):
            method["optimizer"] = optimizer.resolved_options()
        else:
            method["optimizer"] = optimizer
        params = self.params.resolved_options()
        return {"method": method, "params": params, "statistics": self.batch_share}

    def build(self, context: TaskContext) -> AdaptationMethod:
        """Build the method around the model."""
        set_batch_share(context.model, self.batch_share)
        space = self.params.build(model=context.model)
        if not isinstance(space, ParamSpace):
            space = ParamSpace(context.model, space)
        injected = {"forward": partial(context.forward, context.model), "space": space}
        if isinstance(self.optimizer, PartSpec):
            injected["optimizer"] = partial(self.optimizer.factory, **self.optimizer.options)
        elif self.optimizer is not None:
            injected["optimizer"] = self.optimizer
        method = self.method
        if method.accepts("augment"):
            # Augmentations need images in [0, 1], so they undo the normalization of the inputs.
            normalization = {
                name: getattr(context.image_range, name).flatten().tolist()
                for name in ("mean", "std")
            }
            augment = {**normalization, **(method.options.get("augment") or {})}
            method = replace(method, options={**method.options, "augment": augment})
        built: AdaptationMethod = method.build(**injected)
        return built


def _check_task(method: PartSpec, task: Task) -> None:
    if task.supports in method.factory.supports:
        return
    kinds = {"pixels": "segmentation", "images": "classification"}
    near = f"{method.name}_{task.supports}"
    other = f"use {near!r}" if near in table("method") else "choose another one"
    raise ReservoirError(
        f"the method {method.name!r} is for {kinds[method.factory.supports[0]]}, not for "
        f"{task.supports}: {other}"
    )


def _pick_optimizer(options: Options | str) -> PartSpec:
    """Choose an optimizer of torch, and check its values by building it for one number."""
    where = "method.optimizer"
    optimizer = pick("optimizer", options, where, "Adam", injected=("params",))
    number = torch.zeros(1, requires_grad=True)
    number.grad = torch.ones(1)
    try:
        optimizer.build(params=[number]).step()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ReservoirError(f"{where}: {optimizer.name} does not take that: {error}") from error
    return optimizer
