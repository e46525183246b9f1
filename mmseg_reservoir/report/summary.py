"""Several seeds of several configs: mean and deviation, and a table of them."""

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
from ..runs.image_times import Spread, image_times, milliseconds_text
from ..runs.reader import find_differences, group_key, group_names
from .published import Row, row_of
from .tables import Results, make_table, metric_of, routing_purity, scores_by_domain

VISITS = {"mIoU": (1, 4, 7, 10), "error": (1, 5, 10, 15, 20)}
"""By metric: the visits of the paper's table, and some of its twenty where it has all."""
NOTE = (
    "mIoU, or error of classifiers, in percent at a visit, mean over the conditions: mean over the "
    "seeds ± sample deviation (- of one seed). The means of published rows are taken of the "
    "published conditions. Times are medians over all images, or batches, with quartiles."
)
_SAME = "†"
SAME_NOTE = f"{_SAME} nothing random in this row: every seed gives exactly these scores."


@dataclass(frozen=True)
class Statistic:
    """Mean and sample deviation over seeds; of one value the deviation is None."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        """Of one or more values."""
        if not all(map(math.isfinite, values)):  # stdev takes no visit without a score
            return cls(math.nan, math.nan if len(values) > 1 else None)
        return cls(mean(values), stdev(values) if len(values) > 1 else None)

    def text(self, digits: int = 2) -> str:
        """``34.87 ± 0.12``, ``34.87 ± -`` of one value."""
        if math.isnan(self.mean):
            return "-"
        deviation = "-" if self.deviation is None else f"{self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {deviation}"


@dataclass
class Group:
    """The finished runs of one config that differ in nothing but the seed.

    Args:
        name: The config's name, and the options by which it differs from others of that name.
        runs: The results by their file.
        row: The published numbers, where known.
    """

    name: str
    runs: dict[Path, Results]
    row: Row | None = None
    scores: dict[str, list[Statistic]] = field(init=False)
    """The score by visit of every domain and of their mean; only visits that all runs have."""

    def __post_init__(self) -> None:
        by_run = [scores_by_domain(results) for results in self.runs.values()]
        self.scores = {
            domain: [Statistic.of(v) for v in zip(*(s[domain] for s in by_run), strict=False)]
            for domain in by_run[0]
        }

    @property
    def metric(self) -> str:
        """``"mIoU"``, or ``"error"`` of classifiers."""
        return metric_of(next(iter(self.runs.values()))["visits"])

    @property
    def seeds(self) -> list[int]:
        """The seeds, sorted."""
        return sorted(results["seed"] for results in self.runs.values())

    @property
    def incomplete(self) -> bool:
        """Whether images of a run were skipped."""
        visits = (visit for results in self.runs.values() for visit in results["visits"])
        return any(visit.get("skipped") for visit in visits)

    @property
    def constant(self) -> bool:
        """Whether several seeds gave exactly the same scores at every visit."""
        return all(score.deviation == 0 for row in self.scores.values() for score in row)

    @property
    def k(self) -> Statistic:
        """Experts at the end."""
        return Statistic.of([results["routes"][-1]["k"] for results in self.runs.values()])

    @property
    def purity(self) -> Statistic | None:
        """Routing purity; None without a reservoir."""
        if not next(iter(self.runs.values()))["reservoir"]:
            return None
        return Statistic.of([routing_purity(run["routes"]) for run in self.runs.values()])

    @property
    def times(self) -> Spread | None:
        """Seconds per image over all seeds; None where they were not measured."""
        return image_times(chain.from_iterable(run["routes"] for run in self.runs.values()))


def summarize(runs: Mapping[Path, Results]) -> tuple[list[Group], list[str]]:
    """Groups of comparable runs in the order of their first run, and warnings about the rest.

    Unfinished runs and repeated seeds are left out; runs of one group on different data, with
    different versions or in another order of the stream are kept, since only the user knows
    whether it matters. All are named in a warning.
    """
    warnings: list[str] = []
    members: dict[str, dict[Path, Results]] = defaultdict(dict)
    for file, results in runs.items():
        if not results["complete"]:
            warnings.append(
                f"{file} is not complete ({len(results['visits'])} visits are there): left out; "
                "finish the run or remove it"
            )
            continue
        group = members[group_key(results)]
        same = [f for f, other in group.items() if other["seed"] == results["seed"]]
        if same:
            warnings.append(
                f"{file} repeats seed {results['seed']} of {same[0]}: left out, for it would make "
                "the deviation too small"
            )
            continue
        group[file] = results
        skipped = sum(visit.get("skipped", 0) for visit in results["visits"])
        if skipped:
            warnings.append(
                f"{file}: {skipped} images could not be used and were skipped: its scores are "
                "incomplete"
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


def to_json(groups: Sequence[Group], warnings: Sequence[str]) -> dict[str, Any]:
    """Everything, for other programs."""
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
    """One row per group; below it the published row where there is one."""
    visits = sorted({visit for group in groups for visit in VISITS[group.metric]})
    header = ["run", "seeds", "visits", *(f"visit {v}" for v in visits), "last", "experts K"]
    rows = []
    for group in groups:
        scores = group.scores["mean"]
        rows.append(
            [
                group.name + f" {_SAME}" * group.constant + " (incomplete)" * group.incomplete,
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
    return table + ("\n\n" if markdown else "\n") + SAME_NOTE


def summary_markdown(groups: Sequence[Group], warnings: Sequence[str]) -> str:
    """A Markdown document: the table, what it means, and the warnings."""
    parts = [summary_table(groups, markdown=True), NOTE]
    if warnings:
        parts.append("\n".join(f"- Warning: {warning}" for warning in warnings))
    return "\n\n".join(parts) + "\n"


def _cell(group: Group, value: Statistic | None, digits: int) -> str:
    if value is None:
        return "-"
    # Where nothing is random, a deviation of 0 is no measurement.
    same = group.constant and value.deviation == 0
    return f"{value.mean:.{digits}f}" if same else value.text(digits)
