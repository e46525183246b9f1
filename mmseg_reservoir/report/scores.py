"""Compute scores, times and routing purity of a run from its ``results.json``."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..runs.reader import Results
from ..runs.visits import image_times

Visits = Sequence[Mapping[str, Any]]


def metric_of(visits: Visits) -> str:
    """Return ``"mIoU"`` of segmentation, or ``"error"`` of classification (lower is better)."""
    return "error" if visits and "error" in visits[0] else "mIoU"


def by_domain(visits: Visits) -> dict[str, list[float]]:
    """Return the scores of each domain in the order of its visits."""
    metric = metric_of(visits)
    scores: dict[str, list[float]] = defaultdict(list)
    for visit in visits:
        score = visit[metric]
        # A visit without a labeled pixel has no score, which is null in JSON.
        scores[visit["domain"]].append(math.nan if score is None else score)
    return dict(scores)


def mean_by_visit(scores: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the mean over the domains at every visit that all domains have.

    A visit without a score is left out of the mean.
    """
    return [finite_mean(column) for column in zip(*scores.values(), strict=False)]


def finite_mean(scores: Sequence[float]) -> float:
    """Return the mean of all scores that are not NaN; NaN if all are."""
    available = [score for score in scores if not math.isnan(score)]
    return sum(available) / len(available) if available else math.nan


def scores_by_domain(results: Results) -> dict[str, list[float]]:
    """Return the scores by visit of every domain and, as ``"mean"``, their mean."""
    scores = by_domain(results["visits"])
    return scores | {"mean": mean_by_visit(scores)}


def class_scores(results: Results, round: int) -> dict[str, dict[str, float | None]]:
    """Return the score in a round by class and domain, without classes that no domain has."""
    scores: dict[str, dict[str, float | None]] = {}
    for visit in results["visits"]:
        if visit["round"] == round:
            for name, value in (visit.get("per_class") or {}).items():
                scores.setdefault(name, {})[visit["domain"]] = value
    return {name: row for name, row in scores.items() if any(v is not None for v in row.values())}


class Forgetting(NamedTuple):
    """The best visit of a domain (from 1), compared with its last visit."""

    best_visit: int
    best: float
    last: float
    lost: float
    """Difference in points of the metric; 0 if the last visit is the best."""


def forgetting(visits: Visits) -> dict[str, Forgetting]:
    """Return the difference between best and last visit for every domain."""
    sign = -1 if metric_of(visits) == "error" else 1
    losses = {}
    for domain, scores in by_domain(visits).items():
        ranked = [(sign * score, -i) for i, score in enumerate(scores) if math.isfinite(score)]
        if ranked and math.isfinite(scores[-1]):
            best, position = max(ranked)
            lost = best - sign * scores[-1]
            losses[domain] = Forgetting(1 - position, sign * best, scores[-1], lost)
    return losses


def routing_purity(routes: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of images that belong to the most frequent domain of their expert.

    With a single expert it is the share of the largest domain: 0.25 for four equal domains.
    """
    members: dict[int, Counter] = defaultdict(Counter)
    for route in routes:
        members[route["expert"]][route["domain"]] += 1
    right = sum(counts.most_common(1)[0][1] for counts in members.values())
    return right / len(routes)


def milliseconds_by_stage(results: Results) -> dict[str, float]:
    """Return the milliseconds per image by stage, or in one entry if stages were not measured.

    The sum is the median over the run. It is split by the mean times of the stages.
    """
    times = image_times(results["routes"])
    if times is None:
        return {}
    stages = results.get("stages") or {"adapt and predict": 1.0}
    total = sum(stages.values())
    return {name: 1000 * times.median * part / total for name, part in stages.items()}
