"""Timing of contestants in turn on the same inputs, so that other work slows all equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from mmseg_reservoir.runs import visits

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""Wall-clock time, and CPU time for a machine with other work."""

Step = Callable[[Tensor], Any]


class Spread(visits.Spread):
    """Median and quartiles of a benchmark."""

    def named(self, name: str) -> dict[str, float]:
        """Return flat entries of a JSON file."""
        values = {name: self.median, f"{name}/q1": self.low, f"{name}/q3": self.high}
        return {name: float(f"{value:.4g}") for name, value in values.items()}


def interleave(
    contestants: Mapping[str, Step], inputs: Sequence[Tensor], clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Return the seconds of every contestant's steps. All of them process an input before the next.

    The order changes from input to input, because the state of the caches depends on it.
    """
    names = list(contestants)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number, x in enumerate(inputs):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            start = clock()
            contestants[name](x)
            times[name].append(clock() - start)
    return times


def over(times: Mapping[str, Sequence[float]], name: str, base: str) -> list[float]:
    """Return one contestant's seconds over those of another, input by input."""
    return [a / b for a, b in zip(times[name], times[base], strict=True)]
