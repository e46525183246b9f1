"""The conclusion of a report: one sentence, computed from the scores of its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from .shown_run import ShownRun
from .tables import by_domain

_MOST_NAMES = 5  # domains that are named; of more the number is given


class Conclusion(NamedTuple):
    """What the scores of some runs amount to."""

    sentence: str
    basis: str
    """What the numbers are means of; empty without numbers."""


def conclude(runs: Sequence[ShownRun]) -> Conclusion:
    """Return the conclusion of one run, or of several beside each other.

    Runs are compared by the visits that all of them have scored. The reference is the source
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
    named = [name for name in shared if any(name in cells[i] for i in visits)]
    sentence = _of_one(runs[0], means[0]) if len(runs) == 1 else _of_several(runs, means)
    return Conclusion(sentence, _basis(runs, named, [i + 1 for i in visits]))


def _without_scores(runs: Sequence[ShownRun]) -> str:
    values = [v for run in runs for row in by_domain(run.results["visits"]).values() for v in row]
    if any(map(math.isfinite, values)):
        return "The runs have no scored visit in common, so their means are not compared."
    images = sum(route.get("n_images", 1) for route in runs[0].results["routes"])
    if len(runs) == 1:
        k = runs[0].results["routes"][-1]["k"]
        experts = f"{k} expert" + "s" * (k > 1)
        return f"{runs[0].name} has no scores, for want of labels: {images} images, {experts}."
    return f"None of the {len(runs)} runs has scores, for want of labels."


def _of_one(run: ShownRun, means: Sequence[float]) -> str:
    if len(means) == 1:
        return f"The mean {run.metric} of {run.name} is {means[0]:.1f}."
    first, last = (f"{value:.1f}" for value in (means[0], means[-1]))
    if first == last:
        return f"The mean {run.metric} of {run.name} is {last} at the first visit and at the last."
    way = _way(means[0], means[-1], f"from {first} at the first visit ")
    return f"The mean {run.metric} of {run.name} {way} at the last."


def _of_several(runs: Sequence[ShownRun], by_visit: Sequence[Sequence[float]]) -> str:
    means = {id(run): mean(values) for run, values in zip(runs, by_visit, strict=True)}
    sign = -1 if runs[0].metric == "error" else 1
    ranked = sorted(runs, key=lambda run: -sign * means[id(run)])  # the best one first
    source = next((run for run in runs if _is_source(run)), None)
    best = next(run for run in ranked if run is not source)
    reference = source or best.base(runs)
    if reference is None:
        return _extremes(ranked[0], ranked[-1], means, len(runs))
    begin, end = means[id(reference)], means[id(best)]
    who = f"the reservoir ({best.name})" if best.results["reservoir"] else best.name
    way = _way(begin, end, f"from {begin:.1f} ({reference.name}) ")
    if way.startswith("stays"):
        way += f", that of {reference.name}"
    sentence = f"With {who} the mean {best.metric} {way}"
    if sign * (round(end, 1) - round(begin, 1)) < 0 and reference is source:
        sentence = f"No run beats {reference.name}: with{sentence[4:]}"
    other = _companion(best, reference, runs, ranked)
    if other is None:
        return f"{sentence}."
    plain = any(run.base(runs) is other for run in runs)
    clause = f"{other.name}{' alone' * plain} {_way(begin, means[id(other)])}"
    return f"{sentence}; {clause}."


def _is_source(run: ShownRun) -> bool:
    return not run.results["reservoir"] and run.results.get("method") in (None, "Source")


def _companion(
    best: ShownRun, reference: ShownRun, runs: Sequence[ShownRun], ranked: Sequence[ShownRun]
) -> ShownRun | None:
    """Return the run to name beside the best: the same method otherwise, else the worst run."""
    pairs = [best.base(runs), *(run for run in ranked if run.base(runs) is best), ranked[-1]]
    taken = (None, best, reference)
    return next((run for run in pairs if all(run is not other for other in taken)), None)


def _extremes(best: ShownRun, worst: ShownRun, means: dict[int, float], count: int) -> str:
    low, high = means[id(worst)], means[id(best)]
    if f"{low:.1f}" == f"{high:.1f}":
        return f"All {count} runs have the same mean {best.metric}, {high:.1f}."
    kind, other = ("lowest", "highest") if best.metric == "error" else ("highest", "lowest")
    return (
        f"{best.name} has the {kind} mean {best.metric}, {high:.1f}; {worst.name} has the "
        f"{other}, {low:.1f}."
    )


def _way(begin: float, end: float, origin: str = "") -> str:
    """``rises from 34.6 (Source) to 41.2``, as the rounded numbers show it."""
    change = round(end, 1) - round(begin, 1)
    if not change:
        return f"stays at {end:.1f}"
    return f"{'rises' if change > 0 else 'falls'} {origin}to {end:.1f}"


def _basis(runs: Sequence[ShownRun], domains: Sequence[str], visits: Sequence[int]) -> str:
    """Say what the means are of, and how to read them."""
    metric = runs[0].metric
    few = len(domains) <= _MOST_NAMES
    over = _listed(domains) if few else f"{len(domains)} domains"
    when = f"visit {visits[0]}" if len(visits) == 1 else f"visits {visits[0]} to {visits[-1]}"
    longest = max(len(row) for run in runs for row in by_domain(run.results["visits"]).values())
    all_of = any(set(run.domains) != set(domains) for run in runs) or longest > len(visits)
    shared = ", which all runs have scored" if all_of and len(runs) > 1 else ""
    better = "lower is better" if metric == "error" else "higher is better"
    return f"{metric} in percent, {better}. Mean over {over}, {when}{shared}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
