"""Turn options into objects: the one way, for segmentation and for classification.

A :class:`RunBuilder` resolves and checks all options of a run, and reads and computes nothing. With
a :class:`TaskContext` it builds the pipeline, and calibrates it on source images::

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
        supports: What a method must be able to adapt to: ``"pixels"`` or ``"images"``.
        statistics: What BatchNorm normalizes by, unless the method has a default.
        under: The part of the model that adapts.
        optimizer: The optimizer, where the method names none.
        style: Options of the style encoder that the preset leaves open.
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
    style={},  # a batch may be a single frame, of which all is needed
)
CLASSIFICATION = Task(
    supports="images",
    statistics="batch",  # as in TENT
    under="",
    optimizer={"type": "Adam", "lr": 1e-3},  # the paper's for CIFAR
    style={"crop": 0.5},  # the middle of many images is enough (see docs/performance.md)
)


@dataclass(frozen=True)
class TaskContext:
    """The model of a run, and its source images.

    Args:
        model: The model with its weights loaded, on its device, in evaluation mode.
        forward: ``(model, inputs) -> logits (N, C, *spatial)``.
        image_range: How the inputs were normalized.
        source: Batches of source images, or None.
    """

    model: nn.Module
    forward: Callable[[nn.Module, Tensor], Tensor]
    image_range: ImageRange
    source: SourceImages | None = None


class RunBuilder:
    """The options of a run, resolved and checked.

    Instead of options, an object may be given: a method, a router (``reservoir.router``), an
    encoder (``reservoir.style``), or a calibration (``reservoir.calibration``).

    Args:
        task: ``SEGMENTATION`` or ``CLASSIFICATION``.
        method: A name, or ``dict(type=name, optimizer=dict(type=..., lr=...), **options)``.
        params: What adapts: ``dict(type=..., **options)``.
        statistics: What BatchNorm normalizes by: ``"running"``, ``"batch"``, or the share of the
            batch as a number. None: the default of the method, or else of the task.
        reservoir: Options (see ``presets.py``), the name of a preset, or None: the plain method.
        seed: Seed of everything random in method, params and router that has no other seed.
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
        """Use a method object, or other options of the reservoir; the rest stays."""
        if method is not None:
            self._method = method
        if reservoir is not None:
            options = without_scope(reservoir)
            self._reservoir = ReservoirBuilder(options, self.seed, self.task.style)

    @property
    def options(self) -> dict[str, Any]:
        """All options with their values in this run, defaults too, as plain JSON values."""
        method: dict[str, Any] = {"method": self._method}
        if isinstance(self._method, MethodBuilder):
            method = self._method.resolved_options()
        reservoir = None if self._reservoir is None else self._reservoir.resolved_options()
        options: dict[str, Any] = _plain({"seed": self.seed, **method, "reservoir": reservoir})
        return options

    def describe(self) -> str:
        """Return the options in a few lines, one per group."""
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
        """The saved reservoir that the run starts from."""
        return WarmStart() if self._reservoir is None else self._reservoir.start

    def assemble(self, context: TaskContext) -> AdaptationPipeline:
        """Build the pipeline. It reads no source image, so mistakes show early."""
        method = self._method
        if isinstance(method, MethodBuilder):
            method = method.build(context)
        if self._reservoir is None:
            return SingleModelPipeline(method)
        return self._reservoir.build(method, context)

    def calibrate(self, pipeline: AdaptationPipeline, context: TaskContext) -> Calibration | None:
        """Calibrate the router, then the method, on source images; or load the saved reservoir.

        The router comes first: a source that shuffles then calibrates it alike for all methods.

        Returns:
            What the router was fitted to; None if it uses no styles.
        """
        if self.start.start_from is not None:
            load_reservoir(pipeline, self.start.start_from)
            return pipeline.router.calibration
        calibration = None
        if self._reservoir is not None and pipeline.router.needs_style:
            calibration = self._reservoir.calibrate(pipeline.encoder, context.source)
            pipeline.router.calibrate(calibration)
        # A method object has been prepared already.
        if isinstance(self._method, MethodBuilder) and pipeline.method.needs_source:
            name = type(pipeline.method).__name__
            if context.source is None:
                raise ReservoirError(
                    f"{name} needs source images beside the calibration: name them"
                )
            _logger.info("%s reads the source images ...", name)
            pipeline.method.prepare(context.source)
            # Every domain starts from the source's values, whatever prepare() did to them.
            pipeline.method.space.load(pipeline.method.source)
        is_named = getattr(context.source, "is_named", True)
        return _calibrate_safeguards(pipeline, context.source if is_named else None, calibration)


def _calibrate_safeguards(
    pipeline: AdaptationPipeline, source: SourceImages | None, calibration: Calibration | None
) -> Calibration | None:
    """Calibrate guard and alignment by one pass of the model over source batches.

    Both can do without source images.

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
        for inputs in batches:  # those that the guard left over
            pipeline.predict_source(inputs)
    if alignment.reference is None:
        alignment.take_reference(
            pipeline.method.space.model, None if calibration is None else calibration.reference
        )
    if alignment.reference is None or calibration is None:
        return calibration
    return replace(calibration, reference=alignment.reference.state_dict())


def _plain(value: Any) -> Any:
    """Return a value as plain JSON values, an object by the name of its class."""
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
