"""Resolve and check the options of a reservoir, and build its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..core.pipeline import AdaptationPipeline
from ..errors import ReservoirError
from ..methods import AdaptationMethod
from ..option_types import check_value
from ..registry import check_options, construct, parameters_of, suggest, table
from ..routing.base import Router
from ..snapshot.folder import check_folder
from ..style.calibration import Calibration, SourceImages, calibrate
from ..style.encoder import NormalizingEncoder
from .presets import with_preset
from .schema import Options, PartSpec, pick

if TYPE_CHECKING:
    from .builder import TaskContext


@dataclass(frozen=True)
class WarmStart:
    """The saved reservoir that a run starts from.

    Args:
        start_from: Folder of a saved reservoir with experts and calibration. Defaults to None: the
            run starts from the source model.
        frozen: Whether to use the saved experts without adapting or adding any. Defaults to False.
    """

    start_from: str | None = None
    frozen: bool = False

    def __post_init__(self) -> None:
        if self.start_from is not None:
            check_folder(self.start_from)
        elif self.frozen:
            raise ReservoirError(
                "reservoir.frozen needs a saved reservoir: name its folder, reservoir.start_from"
            )


ROUTER_COMPONENTS = {"memory": "reservoir", "clustering": "information", "space": "parts"}
"""Groups of options for components of a router, and their default types."""

SAFEGUARDS = {
    "alignment": "moments",
    "guard": "labels",
    "pooling": "evidence",
    "trigger": "settled",
}
"""Groups of options for safeguards, and their default types. A group of None is off."""


class ReservoirBuilder:
    """The options of a reservoir: its router, encoder, safeguards and pipeline.

    Args:
        written: Options, or the name of a preset.
        seed: Seed of every part that has one.
        style: Defaults of the style encoder for the task.
    """

    def __init__(self, written: Options | str, seed: int, style: Options | None = None) -> None:
        options = with_preset(written)
        start = {name: options.pop(name) for name in parameters_of(WarmStart) if name in options}
        groups = ("k_max", "style", "calibration", "router", "pipeline")
        valid = (*groups, *ROUTER_COMPONENTS, *SAFEGUARDS)
        for name in options:
            if name not in valid:
                names = suggest(name, ("preset", *parameters_of(WarmStart), *valid))
                raise ReservoirError(f"reservoir has no option {name!r}{names}")
        k_max, count = options.get("k_max", 16), parameters_of(Router)["k_max"].annotation
        self.k_max: int = check_value(k_max, count, "reservoir.k_max")
        self.start = construct(WarmStart, start, "reservoir")
        self._seed = {"seed": seed}
        self.components: dict[str, PartSpec] = {}
        self._pick_router(options, {} if isinstance(written, str) else written)
        self.style = options["style"]
        if not callable(self.style):
            self.style = pick(
                "style", self.style, "reservoir.style", "vgg", ("model", "forward"), style
            )
        self.calibration = options.get("calibration") or {}
        if not isinstance(self.calibration, Calibration):
            self.calibration = check_options(
                calibrate, self.calibration, "reservoir.calibration", ("encode", "source")
            )
        self._pick_pipeline(options)
        self.build_router()  # relations between options are checked by the constructors
        for part in self.safeguards.values():
            part.build()

    def _pick_router(self, options: Options, written: Options) -> None:
        router = options["router"]
        if not isinstance(router, Router):
            injected = ("k_max", *ROUTER_COMPONENTS)
            router = pick("router", router, "reservoir.router", "style", injected, self._seed)
        self.router: PartSpec | Router = router
        name = router.name if isinstance(router, PartSpec) else type(router).__name__
        for part, default in ROUTER_COMPONENTS.items():
            group, where = options.get(part), f"reservoir.{part}"
            if isinstance(router, PartSpec) and router.accepts(part):
                if group is not None:
                    self.components[part] = pick(
                        part, group, where, default, ("k_max",), self._seed
                    )
            elif written.get(part) is not None:
                users = [n for n, cls in table("router").items() if part in parameters_of(cls)]
                raise ReservoirError(
                    f"{where} has no effect on the router {name!r}: leave it out, or use a router "
                    f"that has it ({', '.join(users)})"
                )

    def _pick_pipeline(self, options: Options) -> None:
        injected = ("method", "router", "encoder", *SAFEGUARDS)
        self.pipeline = pick(
            "pipeline", options["pipeline"], "reservoir.pipeline", "reservoir", injected
        )
        self.safeguards: dict[str, PartSpec] = {}
        for name, default in SAFEGUARDS.items():
            group, where = options.get(name), f"reservoir.{name}"
            if group is None:
                continue
            if isinstance(group, bool):
                raise ReservoirError(
                    f"{where} must be a group of options, or None, got {group}: write {name}=None, "
                    f"or {name}=dict(type={default!r})"
                )
            self.safeguards[name] = pick(name, group, where, default, defaults=self._seed)
        for name in self.safeguards:
            if not self.pipeline.accepts(name):
                raise ReservoirError(
                    f"reservoir.{name} has no effect on the pipeline {self.pipeline.name!r}: leave "
                    f"it out ({name}=None)"
                )

    @property
    def needs_calibration(self) -> bool:
        """Whether the router needs styles of the source, and the options name none."""
        router = self.router.factory if isinstance(self.router, PartSpec) else self.router
        has_one = isinstance(self.calibration, Calibration) or self.calibration.get("file")
        return router.needs_style and not has_one and self.start.start_from is None

    def resolved_options(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("style", "calibration", "router")}
        parts |= {"pipeline": self.pipeline, **self.components, **self.safeguards}
        values = {
            name: part.resolved_options() if isinstance(part, PartSpec) else part
            for name, part in parts.items()
        }
        return {"k_max": self.k_max, **vars(self.start), **values}

    def build_router(self) -> Router:
        """Build the router; it is not fitted yet."""
        if isinstance(self.router, Router):
            return self.router
        components = {name: part.build(k_max=self.k_max) for name, part in self.components.items()}
        router: Router = self.router.build(k_max=self.k_max, **components)
        return router

    def build(self, method: AdaptationMethod, context: TaskContext) -> AdaptationPipeline:
        """Build the pipeline around a method; its router is not fitted yet."""
        router = self.build_router()
        encoder = self._build_encoder(context) if router.needs_style else None
        safeguards = {name: part.build() for name, part in self.safeguards.items()}
        pipeline: AdaptationPipeline = self.pipeline.build(
            method=method, router=router, encoder=encoder, **safeguards
        )
        return pipeline

    def _build_encoder(self, context: TaskContext) -> Callable[[Tensor], Tensor]:
        encoder = self.style
        if isinstance(encoder, PartSpec):
            encoder = encoder.build(model=context.model, forward=context.forward)
        if getattr(encoder, "sees", "inputs") == "inputs":
            on_inputs: Callable[[Tensor], Tensor] = encoder
            return on_inputs
        return NormalizingEncoder(encoder, context.image_range.to_imagenet)

    def calibrate(
        self, encode: Callable[[Tensor], Tensor] | None, source: SourceImages | None
    ) -> Calibration:
        """Return the styles of the source."""
        if isinstance(self.calibration, Calibration):
            return self.calibration
        assert encode is not None  # build() made one for a router that needs styles
        return calibrate(encode, source, **self.calibration)
