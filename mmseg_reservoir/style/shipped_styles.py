"""Bundled styles of Cityscapes, for models that were trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..io.files import shipped

CITYSCAPES = "checkpoints/styles_cityscapes.safetensors"
"""Styles of Cityscapes' training frames; ``checkpoints/README.md`` documents how to make them."""

SIZE = (128, 256)
"""Height and width of those frames at encoding, in pixels."""

ASPECTS = (1.6, 2.2)
"""Range of width over height in which that size hardly distorts frames."""


def misfit(height: int, width: int) -> str | None:
    """Return the reason why frames of a size do not fit the bundled styles; None if they do."""
    if height < SIZE[0] or width < SIZE[1]:
        return f"smaller than {SIZE[1]}x{SIZE[0]}, hence blurred at that size"
    if not ASPECTS[0] <= width / height <= ASPECTS[1]:
        low, high = ASPECTS
        return f"of other proportions than {low}:1 to {high}:1, hence distorted at 2:1"
    return None


def with_cityscapes_styles(reservoir: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a reservoir with the bundled styles, unless they set others."""
    style, calibration = (reservoir.get(name) or {} for name in ("style", "calibration"))
    return {
        **reservoir,
        "style": {"size": SIZE, **style},
        "calibration": {"file": str(shipped(CITYSCAPES)), **calibration},
    }
