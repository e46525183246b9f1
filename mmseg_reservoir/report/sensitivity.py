"""The score of runs that differ in one option, by its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ..errors import ReservoirError
from ..registry import choose
from .summary import Statistic
from .tables import Results, metric_of, scores_by_domain

OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "k_max": ("K_max, the largest number of experts", ("options.reservoir.k_max",)),
    "m": ("M, styles in the memory", ("options.reservoir.memory.capacity",)),
    "q": ("q, the quantile of tau", ("options.reservoir.router.quantile",)),
    "batch_size": (
        "images per batch",
        ("config.test_dataloader.batch_size", "config.stream.batch_size"),
    ),
    "source_images": ("source images", ("config.source_images.num_images",)),
}
"""By the name on the command line: a title, and where ``results.json`` has it."""


@dataclass(frozen=True)
class Sweep:
    """Scores and experts by the values of an option; several seeds give deviations.

    Args:
        title: What the option is.
        metric: ``"mIoU"`` or ``"error"``.
        values: In ascending order.
        mean: Per value, the score over all domains and visits.
        last: Per value, that of the last visit.
        k: Per value, the number of experts at the end.
    """

    title: str
    metric: str
    values: list[float]
    mean: list[Statistic]
    last: list[Statistic]
    k: list[Statistic]


def sweep(option: str, runs: Sequence[Results]) -> Sweep:
    """Group the runs by the value of an option, one of `OPTIONS`."""
    title, paths = choose(option, OPTIONS, "option")
    by_value: dict[float, list[Results]] = {}
    for results in runs:
        value = next(filter(lambda v: v is not None, (_look_up(results, p) for p in paths)), None)
        if value is None:
            raise ReservoirError(
                f"a run of {results.get('config_file')} has no {' or '.join(paths)}: the option "
                f"{option} means nothing to it, leave it out"
            )
        by_value.setdefault(value, []).append(results)
    if len(by_value) < 2:
        raise ReservoirError(
            f"all runs have {option} = {next(iter(by_value), None)}: give runs with two or more "
            "values"
        )
    values = sorted(by_value)
    groups = [by_value[value] for value in values]
    scores = [[scores_by_domain(results)["mean"] for results in group] for group in groups]
    return Sweep(
        title,
        metric_of(runs[0]["visits"]),
        values,
        [Statistic.of([mean(row) for row in group]) for group in scores],
        [Statistic.of([row[-1] for row in group]) for group in scores],
        [Statistic.of([run["routes"][-1]["k"] for run in group]) for group in groups],
    )


def _look_up(results: Results, path: str) -> Any:
    value: Any = results
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
