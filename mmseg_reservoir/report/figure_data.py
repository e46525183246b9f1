"""The numbers behind figures of a run, whoever draws them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from ..runs.image_times import image_times
from .tables import Results, by_domain, metric_of

Routes = Sequence[Mapping[str, Any]]
MOST_STRETCHES = 200


class Assignment(NamedTuple):
    """How many images of every domain (rows) went to every expert (columns)."""

    domains: list[str]
    experts: list[int]
    counts: list[list[int]]

    @property
    def shares(self) -> list[list[float]]:
        """The same as shares of each domain's images."""
        return [[count / sum(row) for count in row] for row in self.counts]


def assignment(routes: Routes) -> Assignment:
    """Domains in the order of the stream, experts by their numbers; unused ones are left out."""
    counts: Counter[tuple[str, int]] = Counter()
    for route in routes:
        counts[route["domain"], route["expert"]] += route.get("n_images", 1)
    domains = list(dict.fromkeys(route["domain"] for route in routes))
    experts = sorted({expert for _, expert in counts})
    return Assignment(domains, experts, [[counts[d, e] for e in experts] for d in domains])


class Stretch(NamedTuple):
    """A part of a stream: a visit, or a piece of a stream whose domains change all the time."""

    label: str
    routes: list[Mapping[str, Any]]


def stretches(routes: Routes, most: int = MOST_STRETCHES) -> list[Stretch]:
    """The visits in the order in which they began; equal pieces if these were too many to see."""
    visits: dict[tuple[int, str], list] = {}
    for route in routes:
        visits.setdefault((route["round"], route["domain"]), []).append(route)
    if len(visits) <= most:
        return [Stretch(f"{domain} {round}", part) for (round, domain), part in visits.items()]
    size = math.ceil(len(routes) / most)
    starts = range(0, len(routes), size)
    return [Stretch(f"from {start + 1}", list(routes[start : start + size])) for start in starts]


class ExpertUse(NamedTuple):
    """Which share of a stretch's images each expert got: rows are experts, columns stretches."""

    labels: list[str]
    shares: list[list[float]]
    k: list[int]
    """How many experts there were at the end of each stretch."""


def expert_use(routes: Routes) -> ExpertUse:
    """The experts over time."""
    parts = stretches(routes)
    count = 1 + max(route["expert"] for route in routes)
    used = [Counter(route["expert"] for route in part.routes) for part in parts]
    shares = [[counts[expert] / counts.total() for counts in used] for expert in range(count)]
    return ExpertUse(
        [part.label for part in parts], shares, [part.routes[-1]["k"] for part in parts]
    )


def by_stretch(routes: Routes, name: str) -> dict[str, float]:
    """The mean of what the routes tell under a name, by stretch; those that tell nothing lack."""
    means = {}
    for part in stretches(routes):
        values = [route[name] for route in part.routes if route.get(name) is not None]
        if values:
            means[part.label] = mean(values)
    return means


class Loss(NamedTuple):
    """What was lost of a domain: its best visit (from 1), and its last."""

    best_visit: int
    best: float
    last: float
    lost: float
    """In points of the metric, 0 if the last visit is the best."""


def forgetting(visits: Sequence[Mapping[str, Any]]) -> dict[str, Loss]:
    """How far every domain's last visit is from its best, whichever way is better."""
    sign = -1 if metric_of(visits) == "error" else 1
    losses = {}
    for domain, scores in by_domain(visits).items():
        known = [(sign * score, -i) for i, score in enumerate(scores) if math.isfinite(score)]
        if known and math.isfinite(scores[-1]):
            best, place = max(known)
            losses[domain] = Loss(1 - place, sign * best, scores[-1], best - sign * scores[-1])
    return losses


def class_scores(results: Results, round: int) -> dict[str, dict[str, float | None]]:
    """Class -> domain -> score in a round; classes that no domain has are left out."""
    scores: dict[str, dict[str, float | None]] = {}
    for visit in results["visits"]:
        if visit["round"] == round:
            for name, value in (visit.get("per_class") or {}).items():
                scores.setdefault(name, {})[visit["domain"]] = value
    return {name: row for name, row in scores.items() if any(v is not None for v in row.values())}


class GuardEvent(NamedTuple):
    """A guard pulled an expert back."""

    step: int
    label: str
    """In which stretch."""
    expert: int
    sign: str
    """What spoke against the expert the most."""
    excess: float
    """That over its bound."""
    keep: float
    """The share of its way from the source that it kept."""


GUARD_SIGNS = {"lost": "lost classes", "drift": "drifted", "overconfident": "grew too sure"}
"""What an event of `LabelGuard` tells, in words."""


def guard_events(results: Results) -> list[GuardEvent]:
    """What the guard did, in the order of the stream; nothing if there was none."""
    routes = results["routes"]
    # It counts batches; routes are of batches in classification, of images in segmentation.
    loader = results["config"].get("test_dataloader") or {}
    size = loader.get("batch_size", 1)
    found = []
    for event in (results.get("guard") or {}).get("events", []):
        route = routes[min((event["step"] - 1) * size, len(routes) - 1)]
        label = f"{route['domain']} {route['round']}"
        excess, sign = max((event[sign], sign) for sign in GUARD_SIGNS if sign in event)
        place = event["step"], label, event["expert"]
        found.append(GuardEvent(*place, GUARD_SIGNS[sign], excess, event["keep"]))
    return found


def milliseconds(results: Results) -> dict[str, float]:
    """Time per image by stage; all of it as one, where stages were not watched.

    The sum is the median over the run. Of the stages only means are known: they tell the shares.
    """
    times = image_times(results["routes"])
    if times is None:
        return {}
    stages = results.get("stages") or {"adapt and predict": 1.0}
    total = sum(stages.values())
    return {name: 1000 * times.median * part / total for name, part in stages.items()}
