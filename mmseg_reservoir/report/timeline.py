"""Which expert had which frames, in a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def timeline(experts: Sequence[int]) -> str:
    """Stretches of frames at one expert: ``"0-13: 0 | 14-27: 1 | 28: 0"``."""
    stretches, start = [], 0
    for expert, members in groupby(experts):
        length = len(list(members))
        last = start + length - 1
        stretches.append(f"{start}-{last}: {expert}" if length > 1 else f"{start}: {expert}")
        start += length
    return " | ".join(stretches)
