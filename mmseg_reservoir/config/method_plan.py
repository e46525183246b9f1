"""From options to a method: what adapts, and what steps it."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..methods.common.optimizers import optimizer_factory, pick_optimizer
from ..params.base import ParamSpace
from ..params.normalization import read_batch_share, set_batch_share
from ..registry import table
from .schema import Options, PartSpec, parameters_of, pick

if TYPE_CHECKING:
    from .builder import Task, TaskContext


class MethodPlan:
    """The method, what it adapts and what steps it."""

    def __init__(
        self,
        task: Task,
        method: Options | str,
        params: Options | None,
        statistics: Any,
        seed: int,
    ) -> None:
        options = {"type": method} if isinstance(method, str) else dict(method)
        optimizer = options.pop("optimizer", None)
        self.method = pick("method", options, "method", given=("forward", "space", "optimizer"))
        _check_task(self.method, task)
        self.factory = optimizer if callable(optimizer) else None
        self.optimizer = None
        has_own = parameters_of(self.method.factory)["optimizer"].default
        if self.factory is None and (optimizer or has_own is inspect.Parameter.empty):
            self.optimizer = pick_optimizer(optimizer or task.optimizer)
            self.factory = optimizer_factory(self.optimizer)
        self.params = pick("params", params, "params", default="norm_affine", given=("model",))
        self.defaults = {"seed": seed, "under": task.under}
        default = self.method.factory.statistics or task.statistics
        self.batch_share = read_batch_share(statistics, default)

    def complete(self) -> dict[str, Any]:
        """All options with their values."""
        method = self.method.complete(seed=self.defaults["seed"])
        method["optimizer"] = self.optimizer.complete() if self.optimizer else self.factory
        params = self.params.complete(**self.defaults)
        return {"method": method, "params": params, "statistics": self.batch_share}

    def make(self, place: TaskContext) -> AdaptationMethod:
        """The method around the model."""
        set_batch_share(place.model, self.batch_share)
        space = self.params.make(model=place.model, **self.defaults)
        if not isinstance(space, ParamSpace):
            space = ParamSpace(place.model, space)
        given = {"forward": partial(place.forward, place.model), "space": space}
        if self.factory is not None:
            given["optimizer"] = self.factory
        method = self.method
        if method.accepts("augment"):
            # Augmentations work on plain images: they have to know how these were normalised.
            normalised = {
                "mean": place.image_range.mean.flatten().tolist(),
                "std": place.image_range.std.flatten().tolist(),
            }
            own = method.options.get("augment") or {}
            method = replace(method, options={**method.options, "augment": {**normalised, **own}})
        return method.make(**given, seed=self.defaults["seed"])


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
