"""The options of a reservoir, resolved and checked, and the parts that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..core.pipeline import AdaptationPipeline
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..registry import suggest, table
from ..routing.base import Router
from ..snapshot.folder import check_folder
from ..style.calibration import Calibration, SourceImages, calibrate
from ..style.encoder import NormalizingEncoder
from .presets import with_preset
from .schema import Options, PartSpec, check_options, construct, parameters_of, pick

if TYPE_CHECKING:
    from .builder import TaskContext


@dataclass(frozen=True)
class WarmStart:
    """What a reservoir begins with.

    Args:
        start_from: The folder of a saved one, whose experts and calibration it takes; None begins
            with the source model alone.
        frozen: Only route to the experts that are there: nothing adapts, no domain is opened.
    """

    start_from: str | None = None
    frozen: bool = False

    def __post_init__(self) -> None:
        if self.start_from is not None:
            check_folder(self.start_from)
        elif self.frozen:
            raise ReservoirError(
                "reservoir.frozen keeps the experts of a saved reservoir as they are: name its "
                "folder, reservoir.start_from"
            )


class ReservoirPlan:
    """Router, encoder and pipeline of a reservoir.

    Args:
        written: Options, or the name of a preset.
        seed: Of everything random in it.
        style: How the task's encoder looks at images where the options do not say.
    """

    PARTS = ("memory", "clustering", "space")
    """Groups of options for parts of a router; it uses those that its constructor names."""

    CARE = {
        "alignment": "moments",
        "guard": "labels",
        "pooling": "evidence",
        "trigger": "settled",
    }
    """Groups of options for what looks after the experts, and their types where none is named.

    None, as published: nothing does."""

    def __init__(self, written: Options | str, seed: int, style: Options | None = None) -> None:
        options = with_preset(written)
        groups = ("k_max", "style", "calibration", *self.PARTS, "router", *self.CARE, "pipeline")
        start = {name: options.pop(name) for name in parameters_of(WarmStart) if name in options}
        for name in options:
            if name not in groups:
                valid = suggest(name, ("preset", *parameters_of(WarmStart), *groups))
                raise ReservoirError(f"reservoir has no option {name!r}{valid}")
        check_options(Router, {"k_max": options.get("k_max", 16)}, "reservoir")
        self.start = construct(WarmStart, start, "reservoir")
        self.given = {"k_max": options.get("k_max", 16), "seed": seed}
        self.view = style or {}
        self.router = options["router"]
        self.parts: dict[str, PartSpec] = {}
        self._pick_router(options, {} if isinstance(written, str) else written)
        self.style = options["style"]
        if not callable(self.style):
            given = ("model", "forward")
            self.style = pick("style", self.style, "reservoir.style", default="vgg", given=given)
        self.calibration = options.get("calibration") or {}
        if not isinstance(self.calibration, Calibration):
            given = ("encode", "source")
            check_options(calibrate, self.calibration, "reservoir.calibration", given)
        self.pipeline = pick(
            "pipeline",
            options["pipeline"],
            "reservoir.pipeline",
            default="reservoir",
            given=("method", "router", "encoder", *self.CARE),
        )
        for name, default in self.CARE.items():
            if isinstance(options.get(name), bool):
                raise ReservoirError(
                    f"reservoir.{name} is a group of options, or None for none: write {name}=None, "
                    f"or {name}=dict(type={default!r})"
                )
        self.care = {
            name: pick(name, options[name], f"reservoir.{name}", default)
            for name, default in self.CARE.items()
            if options.get(name) is not None
        }
        for name in self.care:
            if not self.pipeline.accepts(name):
                raise ReservoirError(
                    f"reservoir.{name} has no effect on the pipeline {self.pipeline.name!r}: leave "
                    f"it out ({name}=None)"
                )
        self.make_router()  # what is wrong with values shows now
        self._make_care()

    def _pick_router(self, options: Options, written: Options) -> None:
        ready = isinstance(self.router, Router)
        if not ready:
            given = (*self.PARTS, "k_max")
            self.router = pick("router", self.router, "reservoir.router", "style", given)
        name = type(self.router).__name__ if ready else self.router.name
        defaults = {"memory": "reservoir", "clustering": "information", "space": "parts"}
        for part in self.PARTS:
            group, where = options.get(part), f"reservoir.{part}"
            if not ready and self.router.accepts(part):
                if group is not None:
                    self.parts[part] = pick(part, group, where, defaults[part], ("k_max",))
            elif written.get(part) is not None:
                users = [n for n, cls in table("router").items() if part in parameters_of(cls)]
                raise ReservoirError(
                    f"{where} has no effect on the router {name!r}: leave it out, or take a router "
                    f"that uses it ({', '.join(users)})"
                )

    def make_router(self) -> Router:
        """The router, not fitted yet."""
        if isinstance(self.router, Router):
            return self.router
        parts = {name: part.make(**self.given) for name, part in self.parts.items()}
        return self.router.make(**parts, **self.given)

    @property
    def needs_calibration(self) -> bool:
        """Whether the router waits for styles, and none are in the options."""
        router = self.router if isinstance(self.router, Router) else self.router.factory
        has_one = isinstance(self.calibration, Calibration) or self.calibration.get("file")
        return router.needs_style and not has_one and self.start.start_from is None

    def complete(self) -> dict[str, Any]:
        """All options with their values."""
        values: dict[str, Any] = {"k_max": self.given["k_max"], **vars(self.start)}
        for name in ("style", "calibration", "router", "pipeline"):
            part = getattr(self, name)
            given = self.view if name == "style" else self.given
            values[name] = part.complete(**given) if isinstance(part, PartSpec) else part
        parts = {**self.parts, **self.care}
        return values | {name: part.complete(**self.given) for name, part in parts.items()}

    def make(self, method: AdaptationMethod, place: TaskContext) -> AdaptationPipeline:
        """The pipeline around a method, its router not fitted yet."""
        router = self.make_router()
        encoder = self._make_encoder(place) if router.needs_style else None
        return self.pipeline.make(
            method=method, router=router, encoder=encoder, **self._make_care()
        )

    def _make_care(self) -> dict[str, Any]:
        return {name: part.make(**self.given) for name, part in self.care.items()}

    def _make_encoder(self, place: TaskContext) -> Callable[[Tensor], Tensor]:
        encoder = self.style
        if isinstance(encoder, PartSpec):
            encoder = encoder.make(model=place.model, forward=place.forward, **self.view)
        if getattr(encoder, "sees", "inputs") == "inputs":
            return encoder
        return NormalizingEncoder(encoder, place.image_range.to_imagenet)

    def calibrate(
        self, encode: Callable[[Tensor], Tensor], source: SourceImages | None
    ) -> Calibration:
        """What the source looks like."""
        if isinstance(self.calibration, Calibration):
            return self.calibration
        return calibrate(encode, source, **self.calibration)
