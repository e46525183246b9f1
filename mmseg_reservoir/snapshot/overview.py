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
def overview(snapshot: ReservoirSnapshot, folder: Path) -> str:
    """Return a table with a row per expert, and a line about the reservoir."""
    rows = []
    for index, expert in enumerate(snapshot.experts):
        guard = snapshot.summary(expert).get("guard", {})
        other, distance = nearest(snapshot, index)
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
    identity = snapshot.identity
    lines = [
        f"{len(snapshot.experts)} experts of at most {snapshot.k_max}, by {identity['method']} "
        f"({identity['optimizer']}) and {identity['router']}: {len(snapshot.layout)} numbers each",
        make_table(_HEADER, rows),
        "scale, alarms: of the guard; distance: to the router those up to 1 are one domain",
    ]
    return "\n".join(lines)


def nearest(snapshot: ReservoirSnapshot, index: int) -> tuple[int | None, float]:
    """Return the expert with the domain nearest to that of expert ``index``, and its distance.

    Without a comparable expert, return None and infinity.
    """
    try:
        router = snapshot.part("router")
    except ReservoirError:  # it cannot compare saved domains
        return None, math.inf
    options = snapshot.options("router")
    shared, mine = snapshot.shared["router"]["shared"], snapshot.experts[index].parts["router"]
    distances = {
        other: router.distance(options, shared, mine, expert.parts["router"])
        for other, expert in enumerate(snapshot.experts)
        if other != index
    }
    other = min(distances, key=distances.__getitem__, default=None)
    if other is None or math.isinf(distances[other]):
        return None, math.inf
    return other, distances[other]
