"""Presets: named sets of reservoir options, for segmentation and classification."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..errors import ReservoirError
from ..registry import choose
from .schema import Options

PUBLISHED_CODE: Options = {
    "k_max": 16,
    "style": {"type": "vgg", "taps": "shallow", "statistic": "logvar", "crop": None},
    "memory": {"type": "published", "capacity": 1024, "per_expert": True},
    "clustering": {
        "type": "information",
        "distance": "euclidean",
        "temperature": 1.0,
        "lr": 1e-4,
        "weight_decay": 0.01,
        "decay_towards": "source",
    },
    "router": {
        "type": "style",
        "quantile": 0.999,
        "assign": "before",
        "learn_from": "and_current",
        "learn_incomplete": True,
    },
    "pipeline": {"type": "reservoir", "init": "mi", "predict": "before"},
}
"""The published implementation (see docs/fidelity.md)."""

PAPER: Options = {
    **PUBLISHED_CODE,
    "memory": {"type": "reservoir", "capacity": 1024, "per_expert": False},
    "clustering": {
        **PUBLISHED_CODE["clustering"],
        "temperature": "sqrt_d",
        "decay_towards": "zero",
        "weight_decay": 0.0,
    },
    "router": {
        **PUBLISHED_CODE["router"],
        "assign": "after",
        "learn_from": "memory",
        "learn_incomplete": False,
    },
    "pipeline": {**PUBLISHED_CODE["pipeline"], "init": "mi_fresh", "predict": "after"},
}
"""The text, the equations and Algorithm 1 of the paper."""

PUBLISHED: Options = {
    **PUBLISHED_CODE,
    "memory": PAPER["memory"],
    "router": {**PUBLISHED_CODE["router"], "learn_incomplete": False},
}
"""The published implementation, with the paper's unbiased style memory of complete batches."""

STREAM: Options = {
    "k_max": 16,
    # The smallest size that routes real frames as well as larger ones (docs/performance.md).
    "style": {"type": "vgg", "taps": "shallow", "statistic": "mean_var", "size": 128},
    "space": {"mean": ["standardize", "squash"], "logvar": ["standardize", "whiten", "squash"]},
    "router": {"type": "segment"},
    # The filter always gives other experts a small weight. Without this threshold, a second
    # forward pass for one percent would double the cost of every frame.
    "pipeline": {**PUBLISHED_CODE["pipeline"], "one_hot": 0.99},
}
"""Routing of single frames by the evidence of the last frames (see docs/routing.md)."""

ROBUST: Options = {
    **STREAM,
    "alignment": {"type": "moments"},
    "guard": {"type": "labels"},
    "pooling": {"type": "evidence"},
    # Pooled experts are similar, so an ensemble is not worth a second forward pass.
    "pipeline": {
        **PUBLISHED_CODE["pipeline"],
        "ensemble": False,
        "unfit": "predict",
        "source": "keep",
    },
}
"""Aligned, guarded and pooled experts (see docs/robust.md)."""

PRESETS: dict[str, Options] = {
    "paper": PAPER,
    "published": PUBLISHED,
    "published_code": PUBLISHED_CODE,
    "robust": ROBUST,
    "stream": STREAM,
}
DEFAULT = "robust"
"""The preset of options without a preset."""


def with_preset(options: Options | str) -> dict[str, Any]:
    """Return the preset that the options name (``robust`` if none), updated by these options.

    A group with another ``type`` than the preset's replaces the preset's whole group, because the
    options of one type are not valid for another. An object replaces it, too.
    """
    if not isinstance(options, (Mapping, str)):
        raise ReservoirError(f"reservoir must be options or a preset's name, got {options!r}")
    options = {"preset": options} if isinstance(options, str) else dict(options)
    merged = copy.deepcopy(dict(choose(options.pop("preset", DEFAULT), PRESETS, "preset")))
    for name, value in options.items():
        base = merged.get(name)
        group = dict(value) if isinstance(value, Mapping) else None
        if group is None or not isinstance(base, dict):
            merged[name] = value if group is None else group
        else:
            same = group.get("type", base.get("type")) == base.get("type")
            merged[name] = {**base, **group} if same else group
    return merged
