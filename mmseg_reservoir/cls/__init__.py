"""The reservoir around any torch classifier, without mmseg and mmcv."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..datasets import SourceBatches, build_dataset, build_source
    from .backbones import build_backbone
    from .classifier import AdaptiveClassifier
    from .streams import build_stream

__all__ = [
    "AdaptiveClassifier",
    "SourceBatches",
    "build_backbone",
    "build_dataset",
    "build_source",
    "build_stream",
]

_MODULES = {
    "AdaptiveClassifier": ".classifier",
    "SourceBatches": "..datasets",
    "build_backbone": ".backbones",
    "build_dataset": "..datasets",
    "build_source": "..datasets",
    "build_stream": ".streams",
}
"""Modules that are imported at first use, because `rows` must not import torch."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
