"""Evaluate the routes of a run for charts and texts: experts, domains, styles, guard events."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mean
from typing import Any, Literal, NamedTuple

import numpy as np

from ..runs.reader import Results
from ..runs.style_sample import Styles

Routes = Sequence[Mapping[str, Any]]
Projection = Literal["pca", "tsne"]
MOST_SEGMENTS = 200
FEWEST_STYLES = 5
"""Smallest number of styles that is drawn."""
_PERPLEXITY = 30


def domains_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the domains of routes or visits in the order of the stream."""
    return list(dict.fromkeys(row["domain"] for row in rows))


class Assignment(NamedTuple):
    """Number of images by domain (rows) and expert (columns)."""

    domains: list[str]
    experts: list[int]
    counts: list[list[int]]

    @property
    def shares(self) -> list[list[float]]:
        return [[count / sum(row) for count in row] for row in self.counts]


def assignment(routes: Routes) -> Assignment:
    """Count the images of every domain by expert. Experts without an image are left out."""
    counts: Counter[tuple[str, int]] = Counter()
    for route in routes:
        counts[route["domain"], route["expert"]] += route.get("n_images", 1)
    domains = domains_of(routes)
    experts = sorted({expert for _, expert in counts})
    return Assignment(domains, experts, [[counts[d, e] for e in experts] for d in domains])


def segments(routes: Routes, most: int = MOST_SEGMENTS) -> list[tuple[str, Routes]]:
    """Return label and routes of each visit, in the order of their first routes.

    More than ``most`` visits are replaced by at most ``most`` pieces of equal length.
    """
    visits: dict[tuple[int, str], list] = {}
    for route in routes:
        visits.setdefault((route["round"], route["domain"]), []).append(route)
    if len(visits) <= most:
        return [(f"{domain} {round}", part) for (round, domain), part in visits.items()]
    size = math.ceil(len(routes) / most)
    starts = range(0, len(routes), size)
    return [(f"from {start + 1}", routes[start : start + size]) for start in starts]


def expert_use(routes: Routes) -> tuple[list[str], list[list[float]], list[int]]:
    """Return the segments' labels, their shares of routes by expert (rows), and their last K."""
    labels, parts = zip(*segments(routes), strict=True)
    count = 1 + max(route["expert"] for route in routes)
    used = [Counter(route["expert"] for route in part) for part in parts]
    shares = [[counts[expert] / counts.total() for counts in used] for expert in range(count)]
    return list(labels), shares, [part[-1]["k"] for part in parts]


def mean_by_segment(routes: Routes, name: str) -> dict[str, float]:
    """Return the mean of an entry of the routes by segment. Segments without it are left out."""
    means = {}
    for label, part in segments(routes):
        values = [route[name] for route in part if route.get(name) is not None]
        if values:
            means[label] = mean(values)
    return means


def timeline(experts: Sequence[int]) -> str:
    """Return the frames and their expert as text, such as ``"0-13: 0 | 14-27: 1 | 28: 0"``."""
    spans, start = [], 0
    for expert, members in groupby(experts):
        last = start + len(list(members)) - 1
        spans.append(f"{start}-{last}: {expert}" if last > start else f"{start}: {expert}")
        start = last + 1
    return " | ".join(spans)


class GuardEvent(NamedTuple):
    """One intervention of the guard, which moves an expert back toward the source."""

    step: int
    label: str
    """Domain and round."""
    expert: int
    reason: str
    """Alarm with the largest ratio to its bound."""
    excess: float
    """Ratio of the alarm's value to its bound."""
    keep: float
    """Share of the expert's difference from the source that was kept."""


GUARD_ALARMS = {"lost": "lost classes", "drift": "drifted", "overconfident": "became overconfident"}
"""Text for each alarm of a guard event."""


def guard_events(results: Results) -> list[GuardEvent]:
    """Return the events of the guard in the order of the stream."""
    routes = results["routes"]
    # The guard counts batches. A route is a batch in classification, an image in segmentation.
    size = (results["config"].get("test_dataloader") or {}).get("batch_size", 1)
    events = []
    for event in (results.get("guard") or {}).get("events", []):
        route = routes[min((event["step"] - 1) * size, len(routes) - 1)]
        label = f"{route['domain']} {route['round']}"
        excess, alarm = max((event[alarm], alarm) for alarm in GUARD_ALARMS if alarm in event)
        reason = GUARD_ALARMS[alarm]
        events.append(
            GuardEvent(event["step"], label, event["expert"], reason, excess, event["keep"])
        )
    return events


def memory_balance(routes: Routes, kind: str, capacity: int) -> tuple[list[str], list[list[float]]]:
    """Replay a stream into a style memory of a ``kind``, with the domain's number as the style.

    Returns:
        The domains, and their shares (rows) of the memory after every route.
    """
    import torch  # takes seconds

    from ..registry import find
    from ..routing.style_memory import StyleMemory

    memory: StyleMemory = find("memory", kind)(capacity=capacity)
    domains = domains_of(routes)
    columns = []
    for route in routes:
        domain = torch.tensor([domains.index(route["domain"])])
        memory.add(domain, torch.ones(len(memory) + 1, 1))
        assert memory.styles is not None
        held = torch.bincount(memory.styles.flatten(), minlength=len(domains))
        columns.append((held / len(memory)).tolist())
    return domains, list(map(list, zip(*columns, strict=True)))


class StyleMap(NamedTuple):
    """Styles as points ``(n, 2)`` in the plane, and the paths of the experts' means."""

    points: np.ndarray
    domains: list[str]
    experts: list[int]
    rounds: list[int]
    paths: dict[int, list[tuple[int, float, float]]]
    """Round, x and y of the mean of an expert's styles until the end of that round, by expert."""

    def points_by_domain(self) -> dict[str, list[int]]:
        """Return the indices of the points of every domain."""
        indices: dict[str, list[int]] = {}
        for index, domain in enumerate(self.domains):
            indices.setdefault(domain, []).append(index)
        return indices


def style_map(results: Results, styles: Styles, projection: Projection = "pca") -> StyleMap:
    """Return a projection of the stored styles, after scaling every channel to variance 1.

    t-SNE cannot project a point later, so the means of the experts are part of its input.
    """
    from sklearn.decomposition import PCA  # takes half a second
    from sklearn.manifold import TSNE

    routes = [results["routes"][index] for index in styles.routes]
    experts = np.array([route["expert"] for route in routes])
    rounds = np.array([route["round"] for route in routes])
    spread = styles.vectors.std(axis=0)
    vectors = (styles.vectors - styles.vectors.mean(axis=0)) / np.where(spread > 0, spread, 1)
    steps = [
        (int(expert), int(number))
        for expert in np.unique(experts)
        for number in np.unique(rounds[experts == expert])
    ]
    means = [vectors[(experts == e) & (rounds <= number)].mean(axis=0) for e, number in steps]
    everything = np.concatenate([vectors, np.stack(means)])
    if projection == "tsne":
        perplexity = min(_PERPLEXITY, (len(everything) - 1) / 3)
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(everything)
    else:
        # Fit only to the styles, because the means must not affect the projection.
        plane = PCA(2, random_state=0).fit(vectors).transform(everything)
    paths: dict[int, list[tuple[int, float, float]]] = {}
    for (expert, number), (x, y) in zip(steps, plane[len(vectors) :].tolist(), strict=True):
        paths.setdefault(expert, []).append((number, x, y))
    domains = [route["domain"] for route in routes]
    return StyleMap(plane[: len(vectors)], domains, experts.tolist(), rounds.tolist(), paths)
