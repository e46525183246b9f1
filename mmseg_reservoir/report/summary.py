"""Compute statistics over several runs: seeds of a config, or values of one option."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ..errors import ReservoirError
from ..registry import choose
from ..runs.reader import Results, find_differences, group_key, group_names
from ..runs.visits import Spread, image_times, milliseconds_text
from .published import Row, row_of
from .scores import metric_of, routing_purity, scores_by_domain
from .tables import make_table

VISITS = {"mIoU": (1, 4, 7, 10), "error": (1, 5, 10, 15, 20)}
"""Visits in the table by metric. For mIoU these are the paper's."""
NOTE = (
    "mIoU, or error of classifiers, in percent at a visit, mean over the domains: mean over the "
    "seeds ± sample deviation (- for one seed). The means of published rows are over the "
    "published domains. Times are medians over all images, or batches, with quartiles."
)
_CONSTANT = "†"
CONSTANT_NOTE = f"{_CONSTANT} nothing random in this row: every seed gives exactly these scores."


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation over seeds; the deviation of one value is None."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        if not all(map(math.isfinite, values)):  # stdev rejects NaN, a visit without a score
            return cls(math.nan, math.nan if len(values) > 1 else None)
        return cls(mean(values), stdev(values) if len(values) > 1 else None)

    def text(self, digits: int = 2) -> str:
        """Return text such as ``34.87 ± 0.12``, or ``34.87 ± -`` for one value."""
        if math.isnan(self.mean):
            return "-"
        deviation = "-" if self.deviation is None else f"{self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {deviation}"


@dataclass
class Group:
    """Complete runs of one config that differ only in the seed.

    Args:
        name: Name of the config, with the options in which groups of the same config differ.
        runs: Results by file.
        row: Published row of the config. Defaults to None, no such row.
    """

    name: str
    runs: dict[Path, Results]
    row: Row | None = None
    scores: dict[str, list[Statistic]] = field(init=False)
    """Scores by visit for every domain and for their mean, at the visits that all runs have."""

    def __post_init__(self) -> None:
        by_run = [scores_by_domain(results) for results in self.runs.values()]
        self.scores = {
            domain: [Statistic.of(v) for v in zip(*(s[domain] for s in by_run), strict=False)]
            for domain in by_run[0]
        }

    @property
    def metric(self) -> str:
        return metric_of(next(iter(self.runs.values()))["visits"])

    @property
    def seeds(self) -> list[int]:
        return sorted(results["seed"] for results in self.runs.values())

    @property
    def incomplete(self) -> bool:
        """Whether a run skipped images."""
        return any(_skipped(results) for results in self.runs.values())

    @property
    def constant(self) -> bool:
        """Whether several seeds have exactly the same scores at every visit."""
        return all(score.deviation == 0 for row in self.scores.values() for score in row)

    @property
    def k(self) -> Statistic:
        return Statistic.of([results["routes"][-1]["k"] for results in self.runs.values()])

    @property
    def purity(self) -> Statistic | None:
        if not next(iter(self.runs.values()))["reservoir"]:
            return None
        return Statistic.of([routing_purity(run["routes"]) for run in self.runs.values()])

    @property
    def times(self) -> Spread | None:
        return image_times(chain.from_iterable(run["routes"] for run in self.runs.values()))


def summarize(runs: Mapping[Path, Results]) -> tuple[list[Group], list[str]]:
    """Return groups of comparable runs in the order of their first run, and warnings.

    Unfinished runs and repeated seeds are left out. Runs of a group that differ in data, versions
    or stream order are kept with a warning, because only the user can judge the difference.
    """
    warnings: list[str] = []
    members: dict[str, dict[Path, Results]] = defaultdict(dict)
    for file, results in runs.items():
        if not results["complete"]:
            warnings.append(
                f"{file} is not complete ({len(results['visits'])} visits so far): left out; "
                "finish the run or remove it"
            )
            continue
        group = members[group_key(results)]
        same = [f for f, other in group.items() if other["seed"] == results["seed"]]
        if same:
            warnings.append(
                f"{file} repeats seed {results['seed']} of {same[0]}: left out, because it would "
                "make the deviation too small"
            )
            continue
        group[file] = results
        if _skipped(results):
            warnings.append(
                f"{file}: {_skipped(results)} images could not be used and were skipped: its "
                "scores are incomplete"
            )
    groups = []
    for name, group in zip(group_names(list(members.values())), members.values(), strict=True):
        warnings += find_differences(name, group)
        try:
            row = row_of(next(iter(group.values())))
        except ReservoirError as error:
            warnings.append(f"{name}: no published row: {error}")
            row = None
        groups.append(Group(name, group, row))
    return groups, warnings


def _skipped(results: Results) -> int:
    return sum(visit.get("skipped", 0) for visit in results["visits"])


def to_json(groups: Sequence[Group], warnings: Sequence[str]) -> dict[str, Any]:
    """Return all numbers as plain data for other programs."""
    return {
        "groups": [
            {
                "name": group.name,
                "seeds": group.seeds,
                "runs": [str(file) for file in group.runs],
                group.metric: {d: [vars(s) for s in row] for d, row in group.scores.items()},
                "k": vars(group.k),
                "purity": group.purity and vars(group.purity),
                **(group.times.to_json() if group.times else {"seconds_per_image": None}),
                "published": group.row and {"name": group.row.name, group.metric: group.row.scores},
            }
            for group in groups
        ],
        "warnings": list(warnings),
    }


def summary_table(groups: Sequence[Group], markdown: bool = False) -> str:
    """Return a table with one row per group, and below it the published row, if any."""
    visits = sorted({visit for group in groups for visit in VISITS[group.metric]})
    header = ["run", "seeds", "visits", *(f"visit {v}" for v in visits), "last", "experts K"]
    rows = []
    for group in groups:
        scores = group.scores["mean"]
        rows.append(
            [
                group.name + f" {_CONSTANT}" * group.constant + " (incomplete)" * group.incomplete,
                ", ".join(map(str, group.seeds)),
                len(scores),
                *(_cell(group, scores[v - 1], 2) if v <= len(scores) else "" for v in visits),
                _cell(group, scores[-1], 2),
                _cell(group, group.k, 1),
                _cell(group, group.purity, 3),
                milliseconds_text(group.times),
            ]
        )
        if group.row:
            theirs = [
                f"{group.row.mean(v):.2f}" if v in group.row.visits and v <= len(scores) else ""
                for v in visits
            ]
            rows.append([f"  published: {group.row.name}", "", "", *theirs, "", "", "", ""])
    table = make_table([*header, "routing purity", "ms per image"], rows, markdown=markdown)
    if not any(group.constant for group in groups):
        return table
    return table + ("\n\n" if markdown else "\n") + CONSTANT_NOTE


def _cell(group: Group, value: Statistic | None, digits: int) -> str:
    if value is None:
        return "-"
    # Do not show a deviation of 0 if the runs have no randomness.
    constant = group.constant and value.deviation == 0
    return f"{value.mean:.{digits}f}" if constant else value.text(digits)


def summary_markdown(groups: Sequence[Group], warnings: Sequence[str]) -> str:
    """Return a Markdown document: the table, a note on it, and the warnings."""
    parts = [summary_table(groups, markdown=True), NOTE]
    if warnings:
        parts.append("\n".join(f"- Warning: {warning}" for warning in warnings))
    return "\n\n".join(parts) + "\n"


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
"""Title and keys in ``results.json`` of each option, by its name on the command line."""


@dataclass(frozen=True)
class Sweep:
    """Scores and experts by the values of an option, in ascending order.

    ``mean`` is the mean score over all domains and visits, ``last`` that of the last visit.
    """

    title: str
    metric: str
    values: list[float]
    mean: list[Statistic]
    last: list[Statistic]
    k: list[Statistic]


def sweep(option: str, runs: Sequence[Results]) -> Sweep:
    """Group runs by the value of an option, one of `OPTIONS`."""
    title, paths = choose(option, OPTIONS, "option")
    by_value: dict[float, list[Results]] = defaultdict(list)
    for results in runs:
        value = next((v for path in paths if (v := _look_up(results, path)) is not None), None)
        if value is None:
            raise ReservoirError(
                f"a run of {results.get('config_file')} has no {' or '.join(paths)}: leave the "
                f"run out, it does not use the option {option}"
            )
        by_value[value].append(results)
    if len(by_value) < 2:
        raise ReservoirError(
            f"all runs have {option} = {next(iter(by_value), None)}: give runs with two or more "
            "values"
        )
    result = Sweep(title, metric_of(runs[0]["visits"]), sorted(by_value), [], [], [])
    for value in result.values:
        scores = [scores_by_domain(results)["mean"] for results in by_value[value]]
        result.mean.append(Statistic.of([mean(row) for row in scores]))
        result.last.append(Statistic.of([row[-1] for row in scores]))
        result.k.append(Statistic.of([run["routes"][-1]["k"] for run in by_value[value]]))
    return result


def _look_up(results: Results, path: str) -> Any:
    value: Any = results
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
