"""The visits of a run with their scores, and the time per image.

Times are medians with quartiles, because the slow first step and other work on the machine would
affect a mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return median and quartiles of one or more values."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median(values), low, high)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of ``results.json`` about the seconds per image."""
        return {"seconds_per_image": self.median, "seconds_quartiles": [self.low, self.high]}


def image_times(routes: Iterable[Mapping[str, Any]]) -> Spread | None:
    """Return the seconds per image over all routes; None if none was measured."""
    seconds = [r["seconds"] for r in routes if r.get("seconds") is not None]
    return Spread.of(seconds) if seconds else None


def milliseconds_text(seconds: Spread | None) -> str:
    """Return milliseconds for a table, such as ``12 (11-14)``; ``-`` if not measured."""
    if seconds is None:
        return "-"
    digits = 0 if seconds.median >= 0.01 else 1
    middle, low, high = (f"{1000 * value:.{digits}f}" for value in seconds)
    return f"{middle} ({low}-{high})"


@dataclass
class VisitRecord:
    """One domain in one round.

    Attributes:
        round: Number of the round, from 1.
        domain: Name under which it is scored.
        score: Score in percent; None before the end of the visit.
        n_images: Number of images so far.
        skipped: Number of unusable images, which are not scored.
        k: Number of experts after the last image.
        seconds: Time for all images in seconds; None if it was not measured.
        adapted: Number of images that were adapted to; None without a clock.
        missed: Number of images that arrived while the model was busy; None without a clock.
        more: Other measurements, such as ``per_class``.
    """

    round: int
    domain: str
    score: float | None = None
    n_images: int = 0
    skipped: int = 0
    k: int = 1
    seconds: float | None = None
    adapted: int | None = None
    missed: int | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self, metric: str, times: Spread | None = None) -> dict[str, Any]:
        """Return plain data, with the score by the name of the metric and the seconds per image."""
        return {
            "round": self.round,
            "domain": self.domain,
            metric: self.score,
            "n_images": self.n_images,
            "k": self.k,
            **({"seconds_per_image": None} if times is None else times.to_json()),
            **({"skipped": self.skipped} if self.skipped else {}),
            **({} if self.missed is None else {"adapted": self.adapted, "missed": self.missed}),
            **self.more,
        }


def finite(value: Any) -> Any:
    """Return a value with None instead of every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
