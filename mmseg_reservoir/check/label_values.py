"""Are the values of a label train ids, and if not, what are they?"""

from __future__ import annotations

from . import finding as kinds
from .finding import Kind
from .layout import Layout


def label_fault(values: tuple[int, ...] | None, layout: Layout) -> tuple[Kind, str] | None:
    """The kind of mistake in a label and its details; None if there is none.

    Args:
        values: The distinct values of its pixels; None if it has several channels.
        layout: Says which values are classes, and which is ignored.
    """
    if values is None:
        return kinds.COLOURS, ": has several channels"
    counted = set(values) - {layout.ignore}
    if not counted:
        return kinds.ALL_IGNORED, f": only {layout.ignore}"
    wrong = sorted(value for value in counted if not 0 <= value < layout.classes)
    if not wrong:
        return None
    text = f": has {', '.join(map(str, wrong[:8]))}{', ...' if len(wrong) > 8 else ''}"
    # Cityscapes' ids go to 33; a picture with nothing beyond 33 is one of ids, not of noise.
    if min(wrong) >= layout.classes and max(wrong) <= layout.raw_ids:
        return kinds.RAW_IDS, text
    return kinds.BAD_VALUES, text
