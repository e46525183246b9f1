"""Styles of the source that come with the project, for models that were trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..io.files import shipped

CITYSCAPES = "checkpoints/styles_cityscapes.safetensors"
"""Of frames of Cityscapes' training set; ``checkpoints/README.md`` tells how they were made."""

SIZE = (128, 256)
"""Height and width in which those frames were looked at, whatever their own size was."""

ASPECTS = (1.6, 2.2)
"""Frames of other proportions, width over height, would be distorted in that size."""


def misfit(height: int, width: int) -> str | None:
    """Why frames of a size cannot be compared with the shipped styles; None if they can."""
    if height < SIZE[0] or width < SIZE[1]:
        return f"smaller than {SIZE[1]}x{SIZE[0]}, hence blurred at that size"
    if not ASPECTS[0] <= width / height <= ASPECTS[1]:
        low, high = ASPECTS
        return f"of other proportions than {low}:1 to {high}:1, hence distorted at 2:1"
    return None


def with_cityscapes_styles(reservoir: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a reservoir that is calibrated by the shipped styles; what is given stays."""
    style, calibration = (reservoir.get(name) or {} for name in ("style", "calibration"))
    return {
        **reservoir,
        "style": {"size": SIZE, **style},
        "calibration": {"file": str(shipped(CITYSCAPES)), **calibration},
    }
