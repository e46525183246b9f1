"""Named sets of reservoir options, and the place where options become objects.

Segmentation and classification share this file: an option has one name, one default and one
meaning in both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .core.calibration import Calibration
from .core.clustering import CLUSTERINGS
from .core.distance import DISTANCES
from .core.domain_reset import DomainResetPipeline
from .core.memory import MEMORIES
from .core.pipeline import AdaptationPipeline, ReservoirPipeline
from .core.router import OracleRouter, Router, StyleRouter
from .core.segment_router import SegmentRouter
from .core.style_space import StyleSpace
from .methods import AdaptationMethod
from .options import choose, construct

Options = Mapping[str, Any]
Style = tuple[Callable[[Tensor], Tensor], Calibration, Sequence[int] | None]
"""Inputs -> style vector; styles of the source; lengths of a style's blocks, one per tap."""

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

STREAM: Options = {
    "k_max": 16,
    "style": {"taps": "shallow", "statistic": "mean_var"},
    "space": {"mean": ["standardise", "squash"], "logvar": ["standardise", "whiten", "squash"]},
    "router": {"type": "segment"},
    # The filter is never quite sure. A second forward pass for one percent of another expert would
    # double the cost of every frame.
    "pipeline": {**PUBLISHED_CODE["pipeline"], "one_hot": 0.99},
}
"""Routing of single frames by the evidence of the last few (see docs/routing.md)."""

PRESETS: dict[str, Options] = {
    "default": DEFAULT,
    "paper": PAPER,
    "published_code": PUBLISHED_CODE,
    "stream": STREAM,
}

ROUTERS: dict[str, type[Router]] = {
    "style": StyleRouter,
    "segment": SegmentRouter,
    "oracle": OracleRouter,
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
    make_style: Callable[[Options, Options], Style],
    seed: int = 0,
    k_max: int = 16,
    style: Options | None = None,
    calibration: Options | None = None,
    space: Options | None = None,
    memory: Options | None = None,
    clustering: Options | None = None,
    router: Options | None = None,
    pipeline: Options | None = None,
) -> AdaptationPipeline:
    """A pipeline with a reservoir around a method.

    Args:
        method: The adaptation method.
        make_style: From ``style`` and ``calibration`` options (the latter without ``quantile``) to
            a :data:`Style`. Only called if the router looks at styles.
        seed: Seed of the style memory.
        k_max: The largest number of experts.
        style: Options of the style encoder.
        calibration: ``quantile``, and what else ``make_style`` takes.
        space: See :func:`build_router`.
        memory: See :func:`build_router`.
        clustering: See :func:`build_router`.
        router: See :func:`build_router`.
        pipeline: ``type`` (``reservoir`` or ``reset``) and its options.
    """
    calibration = dict(calibration or {})
    quantile = calibration.pop("quantile", 0.999)
    encode, known, groups = None, None, None
    if _split(router, "style")[0] != "oracle":
        # A typo in the router's name must not cost a pass over the source images.
        choose(_split(router, "style")[0], ROUTERS, "router")
        encode, known, groups = make_style(style or {}, calibration)
    found = build_router(
        known, groups, seed, k_max, quantile, space, memory, clustering, router=router
    )
    kind, options = _split(pipeline, "reservoir")
    cls = choose(kind, {"reservoir": ReservoirPipeline, "reset": DomainResetPipeline}, "pipeline")
    return construct(
        cls, options, "reservoir.pipeline", method=method, router=found, encoder=encode
    )


def build_router(
    known: Calibration | None,
    groups: Sequence[int] | None = None,
    seed: int = 0,
    k_max: int = 16,
    quantile: float = 0.999,
    space: Options | None = None,
    memory: Options | None = None,
    clustering: Options | None = None,
    router: Options | None = None,
) -> Router:
    """The router alone.

    Args:
        known: The styles of the source; None for the oracle.
        groups: Lengths of the blocks of a style vector, one per tap.
        seed: Seed of the style memory.
        k_max: The largest number of experts.
        quantile: q of tau, for the router ``style``.
        space: Parts of the style vector and their transforms (of ``TRANSFORMS``), for the router
            ``segment``.
        memory: ``type`` (of ``MEMORIES``) and its options, and ``source_styles``: how many styles
            of the source it holds at the start. For the router ``style``.
        clustering: ``type`` (of ``CLUSTERINGS``) and its options, for the router ``style``.
        router: ``type`` (``style``, ``segment`` or ``oracle``) and its options.
    """
    kind, options = _split(router, "style")
    cls = choose(kind, ROUTERS, "router")
    fixed: dict[str, Any] = {"k_max": k_max}
    if cls is SegmentRouter:
        fixed["space"] = StyleSpace(known.styles, space or STREAM["space"], groups)
    elif cls is StyleRouter:
        distance = choose((clustering or {}).get("distance", "euclidean"), DISTANCES, "distance")
        memory = dict(memory or {})
        source_styles = memory.pop("source_styles", 0)
        fixed["tau"] = known.threshold(quantile, distance)
        fixed["clustering"] = _strategy(
            CLUSTERINGS, clustering, "clustering", source_centroid=known.centroid
        )
        fixed["memory"] = _strategy(MEMORIES, memory, "memory", k_max=k_max, seed=seed)
        fixed["memory"].fill(known.styles[:source_styles])
    return construct(cls, options, "reservoir.router", **fixed)


def _split(options: Options | None, default: str) -> tuple[str, dict[str, Any]]:
    options = dict(options or {})
    return options.pop("type", default), options


def _strategy(table: Mapping[str, type], options: Options | None, name: str, **fixed: Any) -> Any:
    kind, options = _split(options, next(iter(table)))
    cls = choose(kind, table, name)
    return construct(cls, options, f"reservoir.{name}", **fixed)
