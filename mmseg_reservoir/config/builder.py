"""Turn options into objects, for segmentation and for classification.

A :class:`RunBuilder` resolves and checks all options of a run, without reading files or computing.
With a :class:`TaskContext` it builds the pipeline, and calibrates it on source images::

    builder = RunBuilder(SEGMENTATION, method="tent", reservoir="stream", seed=0)
    pipeline = builder.assemble(context)
    calibration = builder.calibrate(pipeline, context)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from torch import Tensor, nn

from .._renamed import renamed_names
from ..core.guard import SOURCE_BATCHES
from ..core.image_range import ImageRange
from ..core.pipeline import AdaptationPipeline, SingleModelPipeline
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..option_types import plain_numbers
from ..snapshot import load_reservoir
from ..style.calibration import Calibration, SourceImages
from .method_builder import MethodBuilder
from .reservoir_builder import ReservoirBuilder, WarmStart
from .schema import Options, without_scope

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """The defaults of a task.

    Args:
        supports: Samples that a method must support: ``"pixels"`` or ``"images"``.
        statistics: Default statistics of BatchNorm, if the method has no default.
        under: Submodule that adapts; empty for the whole model.
        optimizer: Default optimizer, if the method has no default.
        style: Defaults of the style encoder, if the preset has none.
    """

    supports: str
    statistics: str
    under: str
    optimizer: Options
    style: Options


SEGMENTATION = Task(
    supports="pixels",
    statistics="running",  # a single image is too little to normalize by
    under="backbone",
    optimizer={"type": "Adam", "lr": 7.5e-6},  # the paper's for SegFormer-B5
    style={},  # no crop: a batch may be a single frame
)
CLASSIFICATION = Task(
    supports="images",
    statistics="batch",  # as in TENT
    under="",
    optimizer={"type": "Adam", "lr": 1e-3},  # the paper's for CIFAR
    style={"crop": 0.5},  # the centers of many images suffice (see docs/performance.md)
)


@dataclass(frozen=True)
class TaskContext:
    """The model of a run, and its source images.

    Args:
        model: Model with loaded weights, on its device, in evaluation mode.
        forward: Function ``(model, inputs) -> logits (N, C, *spatial)``.
        image_range: Value range of the inputs.
        source: Batches of source images. Defaults to None.
    """

    model: nn.Module
    forward: Callable[[nn.Module, Tensor], Tensor]
    image_range: ImageRange
    source: SourceImages | None = None


class RunBuilder:
    """The options of a run, resolved and checked.

    These may be objects instead of options: the method, the router (``reservoir.router``), the
    encoder (``reservoir.style``), and the calibration (``reservoir.calibration``).

    Args:
        task: ``SEGMENTATION`` or ``CLASSIFICATION``.
        method: Name, or ``dict(type=name, optimizer=dict(type=..., lr=...), **options)``.
        params: Parameters to adapt: ``dict(type=..., **options)``.
        statistics: Statistics of BatchNorm: ``"running"``, ``"batch"``, or the weight of the batch
            as a number from 0 to 1. None uses the default of the method, or else of the task.
        reservoir: Options (see ``presets.py``) or the name of a preset. None runs the method
            without a reservoir.
        seed: Seed of method, params and router, unless their options contain one.
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
        params, statistics = without_scope(params), plain_numbers(without_scope(statistics))
        method = without_scope(method)
        self.task, self.seed = task, plain_numbers(seed)
        self._method: AdaptationMethod | MethodBuilder
        if not isinstance(method, AdaptationMethod):
            self._method = MethodBuilder(task, method, params, statistics, self.seed)
        elif params is None and statistics is None:
            self._method = method
        else:
            raise ReservoirError(
                "a method object already has its parameters and statistics: leave out params and "
                "statistics"
            )
        self._reservoir: ReservoirBuilder | None = None
        if reservoir is not None:
            self.replace(reservoir=reservoir)

    def replace(
        self, method: AdaptationMethod | None = None, reservoir: Options | str | None = None
    ) -> None:
        """Replace the method by an object, or the options of the reservoir."""
        if method is not None:
            self._method = method
        if reservoir is not None:
            options = without_scope(reservoir)
            self._reservoir = ReservoirBuilder(options, self.seed, self.task.style)

    @property
    def options(self) -> dict[str, Any]:
        """All options of this run, including defaults, as plain JSON values."""
        method: dict[str, Any] = {"method": self._method}
        if isinstance(self._method, MethodBuilder):
            method = self._method.resolved_options()
        reservoir = None if self._reservoir is None else self._reservoir.resolved_options()
        options: dict[str, Any] = _plain({"seed": self.seed, **method, "reservoir": reservoir})
        return options

    def describe(self) -> str:
        """Return a description of the options, one line per group."""
        lines = ["options of this run, defaults included:"]
        for name, value in self.options.items():
            if name == "reservoir" and value is not None:
                lines += [f"  reservoir.{group}: {_words(part)}" for group, part in value.items()]
            else:
                lines.append(f"  {name}: {_words(value)}")
        return "\n".join(lines)

    @property
    def needs_calibration(self) -> bool:
        """Whether the router needs styles of the source, and the options name none."""
        return self._reservoir is not None and self._reservoir.needs_calibration

    @property
    def start(self) -> WarmStart:
        """The options of the saved reservoir that the run starts from."""
        return WarmStart() if self._reservoir is None else self._reservoir.start

    def assemble(self, context: TaskContext) -> AdaptationPipeline:
        """Return the pipeline, not calibrated yet. No source image is read."""
        method = self._method
        if isinstance(method, MethodBuilder):
            method = method.build(context)
        if self._reservoir is None:
            return SingleModelPipeline(method)
        return self._reservoir.build(method, context)

    def calibrate(self, pipeline: AdaptationPipeline, context: TaskContext) -> Calibration | None:
        """Calibrate the pipeline on source images, or load the saved reservoir.

        The router is calibrated before the method. So it gets the same images for all methods,
        even if the source shuffles.

        Returns:
            Calibration of the router; None if it uses no styles.
        """
        if self.start.start_from is not None:
            load_reservoir(pipeline, self.start.start_from)
            return pipeline.router.calibration
        calibration = None
        if self._reservoir is not None and pipeline.router.needs_style:
            calibration = self._reservoir.calibrate(pipeline.encoder, context.source)
            pipeline.router.calibrate(calibration)
        # A method that was passed as an object is prepared already.
        if isinstance(self._method, MethodBuilder) and pipeline.method.needs_source:
            name = type(pipeline.method).__name__
            if context.source is None:
                raise ReservoirError(
                    f"{name} needs source images beside the calibration: name them"
                )
            _logger.info("%s reads the source images ...", name)
            pipeline.method.prepare(context.source)
            # prepare() may change parameters, but every domain starts from the source's values.
            pipeline.method.space.load(pipeline.method.source)
        is_named = getattr(context.source, "is_named", True)
        return _calibrate_safeguards(pipeline, context.source if is_named else None, calibration)


def _calibrate_safeguards(
    pipeline: AdaptationPipeline, source: SourceImages | None, calibration: Calibration | None
) -> Calibration | None:
    """Calibrate guard and alignment by one pass over source batches, if there is a source.

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
        for inputs in batches:  # those that the guard did not use
            pipeline.predict_source(inputs)
    if alignment.reference is None:
        alignment.take_reference(
            pipeline.method.space.model, None if calibration is None else calibration.reference
        )
    if alignment.reference is None or calibration is None:
        return calibration
    return replace(calibration, reference=alignment.reference.state_dict())


def _plain(value: Any) -> Any:
    """Return a value as plain JSON values; an object becomes the name of its class."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        words = [f"{name}={_words(part)}" for name, part in value.items() if part is not None]
        return ", ".join(words) or "-"
    return str(value)


__getattr__ = renamed_names(
    __name__,
    {"Plan": "config.builder.RunBuilder", "Workplace": "config.builder.TaskContext"},
)
