"""The scores of a page: heading, overview and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, NamedTuple

from ...errors import ReservoirError
from ..published import Row, beside_published, row_of
from ..scores import by_domain, forgetting, milliseconds_by_stage, routing_purity, scores_by_domain
from ..shown_run import ShownRun

_MOST_NAMES = 5
"""Largest number of domains that the heading lists by name."""


class Conclusion(NamedTuple):
    """The heading of a page."""

    sentence: str
    basis: str
    """Description of the numbers in the heading; empty without numbers."""


def conclude(runs: Sequence[ShownRun]) -> Conclusion:
    """Return the heading: the conclusion of one run, or the comparison of several.

    Runs are compared at the visits that all of them have scored. The reference is the source
    model, else the best run's method without a reservoir.
    """
    scores = [by_domain(run.results["visits"]) for run in runs]
    shared = [name for name in scores[0] if all(name in rows for rows in scores)]
    count = min((len(rows[name]) for rows in scores for name in shared), default=0)
    cells = [
        [name for name in shared if all(math.isfinite(rows[name][i]) for rows in scores)]
        for i in range(count)
    ]
    visits = [i for i in range(count) if cells[i]]
    if not visits:
        return Conclusion(_without_scores(runs), "")
    # One mean per run and visit, as in the tables.
    means = [[mean(rows[name][i] for name in cells[i]) for i in visits] for rows in scores]
    domains = [name for name in shared if any(name in cells[i] for i in visits)]
    sentence = _of_one(runs[0], means[0]) if len(runs) == 1 else _of_several(runs, means)
    return Conclusion(sentence, _basis(runs, domains, [i + 1 for i in visits]))


def _without_scores(runs: Sequence[ShownRun]) -> str:
    values = [v for run in runs for row in by_domain(run.results["visits"]).values() for v in row]
    if any(map(math.isfinite, values)):
        return "The runs have no scored visit in common, so their means are not compared."
    if len(runs) > 1:
        return f"None of the {len(runs)} runs has scores: there were no labels."
    routes = runs[0].results["routes"]
    images, k = sum(route.get("n_images", 1) for route in routes), routes[-1]["k"]
    experts = f"{k} expert" + "s" * (k > 1)
    return f"{runs[0].name} has no scores: there were no labels. {images} images, {experts}."


def _of_one(run: ShownRun, means: Sequence[float]) -> str:
    subject = f"The mean {run.metric} of {run.name}"
    if len(means) == 1:
        return f"{subject} is {means[0]:.1f}."
    first, last = (f"{value:.1f}" for value in (means[0], means[-1]))
    if first == last:
        return f"{subject} is {last} at the first visit and at the last."
    change = _change(means[0], means[-1], f"from {first} at the first visit ")
    return f"{subject} {change} at the last."


def _of_several(runs: Sequence[ShownRun], by_visit: Sequence[Sequence[float]]) -> str:
    means = {id(run): mean(values) for run, values in zip(runs, by_visit, strict=True)}
    sign = -1 if runs[0].metric == "error" else 1
    ranked = sorted(runs, key=lambda run: -sign * means[id(run)])  # the best one first
    source = next((run for run in runs if _is_source(run)), None)
    best = next(run for run in ranked if run is not source)
    reference = source or best.base(runs)
    if reference is None:
        return _extremes(ranked[0], ranked[-1], means, len(runs))
    start, end = means[id(reference)], means[id(best)]
    name = f"the reservoir ({best.name})" if best.results["reservoir"] else best.name
    change = _change(start, end, f"from {start:.1f} ({reference.name}) ")
    if change.startswith("stays"):
        change += f", that of {reference.name}"
    sentence = f"With {name} the mean {best.metric} {change}"
    if sign * (round(end, 1) - round(start, 1)) < 0 and reference is source:
        sentence = f"No run beats {reference.name}: with{sentence[4:]}"
    # Also name the best run's method without (or with) a reservoir, else the worst run.
    pairs = [best.base(runs), *(run for run in ranked if run.base(runs) is best), ranked[-1]]
    taken = (None, best, reference)
    other = next((run for run in pairs if all(run is not one for one in taken)), None)
    if other is None:
        return f"{sentence}."
    plain = any(run.base(runs) is other for run in runs)
    return f"{sentence}; {other.name}{' alone' * plain} {_change(start, means[id(other)])}."


def _is_source(run: ShownRun) -> bool:
    return not run.results["reservoir"] and run.results.get("method") in (None, "Source")


def _extremes(best: ShownRun, worst: ShownRun, means: dict[int, float], count: int) -> str:
    low, high = means[id(worst)], means[id(best)]
    if f"{low:.1f}" == f"{high:.1f}":
        return f"All {count} runs have the same mean {best.metric}, {high:.1f}."
    kind, other = ("lowest", "highest") if best.metric == "error" else ("highest", "lowest")
    return (
        f"{best.name} has the {kind} mean {best.metric}, {high:.1f}; {worst.name} has the "
        f"{other}, {low:.1f}."
    )


def _change(start: float, end: float, origin: str = "") -> str:
    """Return a text such as ``rises from 34.6 (Source) to 41.2``, from the rounded numbers."""
    change = round(end, 1) - round(start, 1)
    if not change:
        return f"stays at {end:.1f}"
    return f"{'rises' if change > 0 else 'falls'} {origin}to {end:.1f}"


def _basis(runs: Sequence[ShownRun], domains: Sequence[str], visits: Sequence[int]) -> str:
    metric = runs[0].metric
    names = " and ".join(filter(None, [", ".join(domains[:-1]), domains[-1]]))
    over = names if len(domains) <= _MOST_NAMES else f"{len(domains)} domains"
    when = f"visit {visits[0]}" if len(visits) == 1 else f"visits {visits[0]} to {visits[-1]}"
    longest = max(len(row) for run in runs for row in by_domain(run.results["visits"]).values())
    partial = any(set(run.domains) != set(domains) for run in runs) or longest > len(visits)
    shared = ", which all runs have scored" if partial and len(runs) > 1 else ""
    better = "lower is better" if metric == "error" else "higher is better"
    return f"{metric} in percent, {better}. Mean over {over}, {when}{shared}."


class Score(NamedTuple):
    """A score in percent, and its differences in points from the base and the published score."""

    value: float | None
    to_base: float | None = None
    to_published: float | None = None


@dataclass(frozen=True)
class ScoreTable:
    """Scores of one run, with the names of its base run and its published row, if any."""

    run: str
    base: str | None
    published: str | None
    visits: int
    rows: dict[str, list[Score]]
    """Scores by visit and their mean, for each domain and, last, for the mean over domains."""


def score_table(
    run: ShownRun, runs: Sequence[ShownRun], warn: Callable[[str], object]
) -> ScoreTable:
    """Return the table of one run among others, with a warning about an invalid metafile."""
    base, row = run.base(runs), _published(run, warn)
    scores = scores_by_domain(run.results)
    base_scores = {} if base is None else scores_by_domain(base.results)
    pairs = beside_published(run.results["visits"], row) if row else {}
    visits = max(map(len, scores.values()))
    rows = {}
    for domain, values in scores.items():
        before = base_scores.get(domain, [])
        published = {visit: pair[1] for visit, pair in pairs.get(domain, {}).items()}
        cells = []
        for i, value in enumerate(values):
            to_base = value - before[i] if i < len(before) else None
            to_published = value - published[i + 1] if i + 1 in published else None
            cells.append(Score(*map(_finite, (value, to_base, to_published))))
        cells += [Score(None)] * (visits - len(cells))
        both = min(len(values), len(before))
        to_base = _mean(values[:both]) - _mean(before[:both]) if both else None
        rows[domain] = [*cells, Score(_finite(_mean(values)), _finite(to_base))]
    row_name = row.name if pairs and row else None
    return ScoreTable(run.name, base.name if base else None, row_name, visits, rows)


def overview(runs: Sequence[ShownRun], tables: Sequence[ScoreTable]) -> list[dict[str, Any]]:
    """Return one row per run: its most important scores, experts, purity, forgetting and time."""
    rows = []
    for run, table in zip(runs, tables, strict=True):
        routes, losses = run.results["routes"], forgetting(run.results["visits"])
        times = milliseconds_by_stage(run.results)
        *by_visit, average = table.rows["mean"]
        rows.append(
            {
                "run": run.name,
                "first": by_visit[0] if by_visit else Score(None),
                "last": by_visit[-1] if by_visit else Score(None),
                "mean": average,
                "lost": _mean([loss.lost for loss in losses.values()]) if losses else None,
                "k": routes[-1]["k"],
                "purity": routing_purity(routes) if run.results["reservoir"] else None,
                "milliseconds": sum(times.values()) if times else None,
            }
        )
    return rows


def _published(run: ShownRun, warn: Callable[[str], object]) -> Row | None:
    try:
        return row_of(run.results)
    except ReservoirError as error:
        warn(f"{run.name}: no published row: {error}")
        return None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
