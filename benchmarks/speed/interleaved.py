"""Contestants that step in turn on the same inputs, so that a busy machine slows all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from mmseg_reservoir.runs import image_times

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""The time of the machine's user, and that of the process: for a machine that others use, too."""

Step = Callable[[Tensor], Any]


class Spread(image_times.Spread):
    """Median and quartiles, as figures of a benchmark."""

    def named(self, name: str) -> dict[str, float]:
        """As flat entries of a JSON file."""
        values = {name: self.median, f"{name}/q1": self.low, f"{name}/q3": self.high}
        return {name: float(f"{value:.4g}") for name, value in values.items()}


def interleave(
    contestants: Mapping[str, Step], inputs: Sequence[Tensor], clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of every contestant's steps; each input is seen by all before the next one comes.

    Who begins changes from input to input: the first one finds the caches as the last one left
    them.
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
    """One contestant's seconds over those of another, input by input."""
    return [a / b for a, b in zip(times[name], times[base], strict=True)]
