"""Named sets of reservoir options, and the place where options become objects.

Segmentation and classification share this file: an option has one name, one default and one
meaning in both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from .core.calibration import Calibration
from .core.clustering import CLUSTERINGS
from .core.distance import DISTANCES
from .core.memory import MEMORIES
from .core.pipeline import AdaptationPipeline, DomainResetPipeline, ReservoirPipeline
from .core.router import OracleRouter, StyleRouter
from .methods import AdaptationMethod
from .options import choose, construct

Options = Mapping[str, Any]

PUBLISHED_CODE: Options = {
    "k_max": 16,
    "style": {"taps": "shallow", "statistic": "logvar"},
    "calibration": {"quantile": 0.999},
    "memory": {"type": "published", "capacity": 1024, "per_expert": True},
    "clustering": {
        "type": "information",
        "distance": "euclidean",
        "temperature": 1.0,
        "lr": 1e-4,
        "weight_decay": 0.01,
        "decay_towards": "source",
    },
    "router": {"type": "style", "assign": "before", "learn_from": "and_current"},
    "pipeline": {"type": "reservoir", "init": "mi", "predict": "before"},
}
"""What the published implementation does (see docs/fidelity.md)."""

PAPER: Options = {
    **PUBLISHED_CODE,
    "memory": {"type": "reservoir", "capacity": 1024, "per_expert": False},
    "clustering": {
        **PUBLISHED_CODE["clustering"],
        "temperature": "sqrt_d",
        "decay_towards": "zero",
        "weight_decay": 0.0,
    },
    "router": {"type": "style", "assign": "after", "learn_from": "memory"},
    "pipeline": {"type": "reservoir", "init": "mi_fresh", "predict": "after"},
}
"""What the text, the equations and Algorithm 1 of the paper say."""

DEFAULT: Options = {**PUBLISHED_CODE, "memory": PAPER["memory"]}
"""The published behaviour, with the paper's unbiased style memory."""

PRESETS: dict[str, Options] = {
    "default": DEFAULT,
    "paper": PAPER,
    "published_code": PUBLISHED_CODE,
}


def with_preset(options: Options) -> dict[str, Any]:
    """Options of a reservoir merged over the preset that they name (``default`` if none).

    A group whose ``type`` differs from the preset's replaces the preset's group: the options of
    one strategy mean nothing to another.
    """
    options = dict(options)
    merged = copy.deepcopy(dict(choose(options.pop("preset", "default"), PRESETS, "preset")))
    for name, value in options.items():
        base = merged.get(name)
        same = isinstance(base, dict) and isinstance(value, Mapping)
        if same and value.get("type", base.get("type")) == base.get("type"):
            merged[name] = {**base, **value}
        else:
            merged[name] = dict(value) if isinstance(value, Mapping) else value
    return merged


def build_reservoir(
    method: AdaptationMethod,
    make_style: Callable[[Options, Options], tuple[Callable[[Tensor], Tensor], Calibration]],
    seed: int = 0,
    k_max: int = 16,
    style: Options | None = None,
    calibration: Options | None = None,
    memory: Options | None = None,
    clustering: Options | None = None,
    router: Options | None = None,
    pipeline: Options | None = None,
) -> AdaptationPipeline:
    """A pipeline with a reservoir around a method.

    Args:
        method: The adaptation method.
        make_style: From ``style`` and ``calibration`` options (the latter without ``quantile``) to
            a function from inputs to style vectors, and the styles of the source. Only called if
            the router looks at styles.
        seed: Seed of the style memory.
        k_max: The largest number of experts.
        style: Options of the style encoder.
        calibration: ``quantile``, and what else ``make_style`` takes.
        memory: ``type`` (of ``MEMORIES``) and its options, and ``source_styles``: how many styles
            of the source it holds at the start.
        clustering: ``type`` (of ``CLUSTERINGS``) and its options.
        router: ``type`` (``style`` or ``oracle``) and its options.
        pipeline: ``type`` (``reservoir`` or ``reset``) and its options.
    """
    kind, options = _split(router, "style")
    if choose(kind, {"style": False, "oracle": True}, "router"):
        encode = None
        found = construct(OracleRouter, options, "reservoir.router", k_max=k_max)
    else:
        calibration = dict(calibration or {})
        quantile = calibration.pop("quantile", 0.999)
        encode, known = make_style(style or {}, calibration)
        distance = choose((clustering or {}).get("distance", "euclidean"), DISTANCES, "distance")
        memory = dict(memory or {})
        source_styles = memory.pop("source_styles", 0)
        found = construct(
            StyleRouter,
            options,
            "reservoir.router",
            k_max=k_max,
            tau=known.threshold(quantile, distance),
            clustering=_strategy(
                CLUSTERINGS, clustering, "clustering", source_centroid=known.centroid
            ),
            memory=_strategy(MEMORIES, memory, "memory", k_max=k_max, seed=seed),
        )
        found.memory.fill(known.styles[:source_styles])
    kind, options = _split(pipeline, "reservoir")
    cls = choose(kind, {"reservoir": ReservoirPipeline, "reset": DomainResetPipeline}, "pipeline")
    return construct(
        cls, options, "reservoir.pipeline", method=method, router=found, encoder=encode
    )


def _split(options: Options | None, default: str) -> tuple[str, dict[str, Any]]:
    options = dict(options or {})
    return options.pop("type", default), options


def _strategy(table: Mapping[str, type], options: Options | None, name: str, **fixed: Any) -> Any:
    kind, options = _split(options, next(iter(table)))
    cls = choose(kind, table, name)
    return construct(cls, options, f"reservoir.{name}", **fixed)
