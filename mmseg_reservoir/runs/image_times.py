"""Time per image: the median over the steps of a run, with quartiles.

A mean would also hold what is no property of the method: the first step, which is slow, and other
work on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value or more."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median(values), low, high)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of ``results.json``, of seconds per image."""
        return {"seconds_per_image": self.median, "seconds_quartiles": [self.low, self.high]}


def image_times(routes: Iterable[Mapping[str, Any]]) -> Spread | None:
    """Return the seconds per image of a run, or of several; None where they were not measured."""
    seconds = [r["seconds"] for r in routes if r.get("seconds") is not None]
    return Spread.of(seconds) if seconds else None


def milliseconds_text(seconds: Spread | None) -> str:
    """Return ``12 (11-14)``: milliseconds for a table; ``-`` where they were not measured."""
    if seconds is None:
        return "-"
    digits = 0 if seconds.median >= 0.01 else 1
    middle, low, high = (f"{1000 * value:.{digits}f}" for value in seconds)
    return f"{middle} ({low}-{high})"
