"""A table of the experts of a reservoir, with their counts."""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import ReservoirError
from ..report.tables import make_table
from .folder import expert_file
from .reservoir_snapshot import ReservoirSnapshot, explained

_HEADER = ["expert", "images", "visits", "updates", "scale", "alarms", "nearest", "distance", "kB"]


@explained
def overview(contents: ReservoirSnapshot, folder: Path) -> str:
    """Return a table with a row per expert, and a line about the reservoir."""
    rows = []
    for index, expert in enumerate(contents.experts):
        guard = contents.summary(expert).get("guard", {})
        other, distance = nearest(contents, index)
        tally = expert.tally
        rows.append(
            [
                f"{index} (source)" if index == 0 else str(index),
                *(tally.images, tally.visits, tally.updates),
                f"{guard['scale']:.3g}" if "scale" in guard else "-",
                guard.get("alarms", "-"),
                "-" if other is None else other,
                "-" if other is None else f"{distance:.2f}",
                f"{(folder / expert_file(index)).stat().st_size / 1000:.0f}",
            ]
        )
    identity = contents.identity
    lines = [
        f"{len(contents.experts)} experts of at most {contents.k_max}, by {identity['method']} "
        f"({identity['optimizer']}) and {identity['router']}: {len(contents.layout)} numbers each",
        make_table(_HEADER, rows),
        "scale, alarms: of the guard; distance: to the router those up to 1 are one domain",
    ]
    return "\n".join(lines)


def nearest(contents: ReservoirSnapshot, index: int) -> tuple[int | None, float]:
    """Return the expert with the domain nearest to that of expert ``index``, and its distance.

    Without a comparable expert, return None and infinity.
    """
    try:
        router = contents.part("router")
    except ReservoirError:  # it cannot compare saved domains
        return None, math.inf
    options = contents.options("router")
    shared, mine = contents.shared["router"]["shared"], contents.experts[index].parts["router"]
    distances = {
        other: router.distance(options, shared, mine, expert.parts["router"])
        for other, expert in enumerate(contents.experts)
        if other != index
    }
    other = min(distances, key=distances.__getitem__, default=None)
    if other is None or math.isinf(distances[other]):
        return None, math.inf
    return other, distances[other]
