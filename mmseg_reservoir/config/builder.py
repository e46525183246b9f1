"""Turn options into objects: the one way, for segmentation and for classification.

A :class:`RunBuilder` first resolves and checks all options of a run. It reads, downloads and
computes nothing. With what the task provides (:class:`TaskContext`) it then builds the pipeline,
and only then calibrates it on source images::

    plan = RunBuilder(SEGMENTATION, method="tent", reservoir="stream", seed=0)
    pipeline = plan.assemble(workplace)
    calibration = plan.calibrate(pipeline, workplace)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from torch import Tensor, nn

from ..core.guard import SOURCE_BATCHES
from ..core.image_range import ImageRange
from ..core.pipeline import AdaptationPipeline, SingleModelPipeline
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..snapshot import load_reservoir
from ..style.calibration import Calibration, SourceImages
from .method_plan import MethodPlan
from .reservoir_plan import ReservoirPlan, WarmStart
from .schema import Options, without_scope

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """What differs between the tasks where a user says nothing.

    Args:
        supports: What a method must be able to adapt to: ``"pixels"`` or ``"images"``.
        statistics: What BatchNorm normalises by, unless the method has a wish.
        under: The part of the model that adapts.
        optimizer: What steps it.
        style: How a style encoder looks at images where the preset leaves it open.
    """

    supports: str
    statistics: str
    under: str
    optimizer: Options
    style: Options


SEGMENTATION = Task(
    supports="pixels",
    statistics="running",  # a single image is too little to normalise by
    under="backbone",
    optimizer={"type": "Adam", "lr": 7.5e-6},  # the paper's for SegFormer-B5
    style={},  # a frame that comes alone is needed whole
)
CLASSIFICATION = Task(
    supports="images",
    statistics="batch",  # as in TENT
    under="",
    optimizer={"type": "Adam", "lr": 1e-3},  # the paper's for CIFAR
    style={"crop": 0.5},  # of many images the middle will do (see docs/performance.md)
)


@dataclass(frozen=True)
class TaskContext:
    """What a task brings: how to run its model, and where source images come from.

    Args:
        model: With its weights loaded, on its device, in evaluation mode.
        forward: ``(model, inputs) -> logits (N, C, *spatial)``.
        image_range: How the inputs were normalised.
        source: Batches of source images; None if there are none.
    """

    model: nn.Module
    forward: Callable[[nn.Module, Tensor], Tensor]
    image_range: ImageRange
    source: SourceImages | None = None


class RunBuilder:
    """The options of a run, resolved and checked.

    Where options stand for a part, the part itself may stand ready made: a method, a router
    (``reservoir.router``), an encoder (``reservoir.style``), a calibration
    (``reservoir.calibration``).

    Args:
        task: ``SEGMENTATION`` or ``CLASSIFICATION``.
        method: A name, or ``dict(type=name, optimizer=dict(type=..., lr=...), **options)``.
        params: What adapts: ``dict(type=..., **options)``.
        statistics: What BatchNorm normalizes by: ``"running"``, ``"batch"``, or the share of the
            batch as a number. None: the default of the method, or else of the task.
        reservoir: Options (see ``presets.py``), the name of a preset, or None: the plain method.
        seed: Of everything random in method, params and router, unless these have their own.
    """

    def __init__(
        self,
        task: Task,
        method: Options | str | AdaptationMethod = "source",
        params: Options | None = None,
        statistics: Any = None,
        reservoir: Options | str | None = None,
        seed: int = 0,
    ) -> None:
        params, statistics = without_scope(params), without_scope(statistics)
        method, reservoir = without_scope(method), without_scope(reservoir)
        self.task, self.seed = task, seed
        self._ready = method if isinstance(method, AdaptationMethod) else None
        self._method = None
        if self._ready is None:
            self._method = MethodPlan(task, method, params, statistics, seed)
        elif params is not None or statistics is not None:
            raise ReservoirError(
                "a method that is ready made has its parameters and statistics already: leave out "
                "params and statistics"
            )
        self._reservoir = None if reservoir is None else ReservoirPlan(reservoir, seed, task.style)

    def replace(
        self, method: AdaptationMethod | None = None, reservoir: Options | None = None
    ) -> None:
        """Take a method that is ready made, or other options of the reservoir; the rest stays."""
        if method is not None:
            self._ready, self._method = method, None
        if reservoir is not None:
            self._reservoir = ReservoirPlan(without_scope(reservoir), self.seed, self.task.style)

    @property
    def options(self) -> dict[str, Any]:
        """All options with their values in this run, defaults too, as plain JSON values."""
        method = {"method": self._ready} if self._method is None else self._method.complete()
        reservoir = None if self._reservoir is None else self._reservoir.complete()
        return _plain({"seed": self.seed, **method, "reservoir": reservoir})

    def describe(self) -> str:
        """The options in a few lines, one per group."""
        lines = ["options of this run, defaults included:"]
        for name, value in self.options.items():
            if name == "reservoir" and value is not None:
                lines += [f"  reservoir.{group}: {_words(part)}" for group, part in value.items()]
            else:
                lines.append(f"  {name}: {_words(value)}")
        return "\n".join(lines)

    @property
    def needs_calibration(self) -> bool:
        """Whether a router waits for styles of the source, and none are in the options."""
        return self._reservoir is not None and self._reservoir.needs_calibration

    @property
    def start(self) -> WarmStart:
        """What its reservoir begins with."""
        return WarmStart() if self._reservoir is None else self._reservoir.start

    def assemble(self, place: TaskContext) -> AdaptationPipeline:
        """Make the pipeline; no source image is looked at, so mistakes show early."""
        method = self._ready if self._method is None else self._method.make(place)
        if self._reservoir is None:
            return SingleModelPipeline(method)
        return self._reservoir.make(method, place)

    def calibrate(self, pipeline: AdaptationPipeline, place: TaskContext) -> Calibration | None:
        """Let the router and then the method learn from source images what they need.

        First the router: a source that shuffles then calibrates it alike for all methods. A saved
        reservoir brings all that with it.

        Returns:
            What the router was fitted to; None if it looks at no styles.
        """
        if self.start.start_from is not None:
            load_reservoir(pipeline, self.start.start_from)
            return pipeline.router.calibration
        calibration = None
        if self._reservoir is not None and pipeline.router.needs_style:
            calibration = self._reservoir.calibrate(pipeline.encoder, place.source)
            pipeline.router.calibrate(calibration)
        # One that came ready made has been prepared by whoever made it.
        if self._ready is None and pipeline.method.needs_source:
            name = type(pipeline.method).__name__
            if place.source is None:
                raise ReservoirError(
                    f"{name} learns from source images, beside what a calibration tells: name them"
                )
            _logger.info("%s looks at the source images ...", name)
            pipeline.method.prepare(place.source)
            # Every domain starts from the source's values, whatever prepare() did to them.
            pipeline.method.space.load(pipeline.method.source)
        there = getattr(place.source, "is_named", True)  # both can do without
        return _measure(pipeline, place.source if there else None, calibration)


def _measure(
    pipeline: AdaptationPipeline, source: SourceImages | None, calibration: Calibration | None
) -> Calibration | None:
    """Let guard and alignment learn from one pass of the model over source batches.

    Returns:
        The calibration, with the reference of the alignment.
    """
    guard, alignment = (getattr(pipeline, name, None) for name in ("guard", "alignment"))
    if alignment is None:
        if guard is not None:
            guard.prepare(pipeline.predict_source, source)
        return calibration
    batches = iter(() if source is None else islice(source, SOURCE_BATCHES))
    with alignment.measuring():
        if guard is not None:
            guard.prepare(pipeline.predict_source, None if source is None else batches)
        for inputs in batches:  # that the guard has left
            pipeline.predict_source(inputs)
    if alignment.reference is None:
        alignment.take_reference(
            pipeline.method.space.model, None if calibration is None else calibration.reference
        )
    if alignment.reference is None or calibration is None:
        return calibration
    return replace(calibration, reference=alignment.reference.state_dict())


def _plain(value: Any) -> Any:
    """A value as JSON has it; a part that is ready made by its name."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        told = {name: part for name, part in value.items() if part is not None}
        return ", ".join(f"{name}={_words(part)}" for name, part in told.items()) or "-"
    return str(value)
