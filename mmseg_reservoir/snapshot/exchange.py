"""Repeated merging of a stream's experts with a common reservoir.

Both contain the *base*, the common experts that the stream loaded last. Merging all of both would
count the base twice. So

- experts of the base keep their numbers and are averaged by the images that each side has seen
  *since the base*. One that no other stream has changed since becomes the stream's;
- experts that the stream has opened since are matched by the router with those that are new to
  it, as :func:`.merge` does. Without a match they are added;
- images, visits, updates, ages and events add up, each counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..core.reservoir import Tally
from ..core.reservoir_part import State
from ..core.reservoir_pipeline import ReservoirPipeline
from .merge import Merge, merge_experts, same
from .reservoir_snapshot import Expert, ReservoirSnapshot, load_experts, take_snapshot


@dataclass(frozen=True)
class Base:
    """The counts of a common reservoir when a stream loaded it.

    Args:
        tallies: The counts of each expert.
        progress: The counts of each component (:meth:`.ReservoirPart.progress`).
        revisions: The number of the last change of each expert.
    """

    tallies: list[dict[str, int]]
    progress: dict[str, State]
    revisions: list[int]

    @classmethod
    def of(cls, snapshot: ReservoirSnapshot, revisions: Sequence[int]) -> Base:
        """Return the base of a camera that continues with these experts."""
        progress = {
            name: snapshot.part(name).progress(snapshot.options(name), snapshot.state_of(name))
            for name in snapshot.components
        }
        return cls([asdict(e.tally) for e in snapshot.experts], progress, list(revisions))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; ``Base(**values)`` restores it."""
        return dict(vars(self))


def delta(snapshot: ReservoirSnapshot, base: Base | None) -> ReservoirSnapshot:
    """Return the experts of a stream, with counts since its base."""
    if base is None:
        return snapshot
    experts = []
    for index, expert in enumerate(snapshot.experts):
        before = base.tallies[index] if index < len(base.tallies) else asdict(Tally())
        now = asdict(expert.tally)
        experts.append(replace(expert, tally=Tally(**{k: now[k] - before[k] for k in now})))
    newer = replace(snapshot, experts=experts)
    for name, progress in base.progress.items():
        options, state = snapshot.options(name), snapshot.state_of(name)
        newer = newer.with_state(name, snapshot.part(name).delta(options, state, progress))
    return newer


def merge_delta(
    common: ReservoirSnapshot,
    revisions: Sequence[int],
    learned: ReservoirSnapshot,
    base: Base | None,
) -> tuple[Merge, list[int]]:
    """Merge what a stream has learned into a common reservoir.

    Args:
        common: The common reservoir.
        revisions: The number of the last change of each of its experts.
        learned: The :func:`delta` of a stream.
        base: The base of the stream; None if it started from the source model.

    Returns:
        The merge, and the revisions after it.
    """
    weights = [] if base is None else _weights(common, revisions, learned, base)
    matched = max(1, len(weights))
    merged = merge_experts(common, learned, matched=matched, weights=weights)
    return merged, revised(common.experts, revisions, merged.snapshot.experts)


def revised(before: Sequence[Expert], revisions: Sequence[int], now: Sequence[Expert]) -> list[int]:
    """Return the revisions of experts after a change of some of them."""
    change = 1 + max(revisions, default=0)
    return [
        revisions[i] if i < len(before) and _is_same(before[i], expert) else change
        for i, expert in enumerate(now)
    ]


def _weights(
    common: ReservoirSnapshot, revisions: Sequence[int], learned: ReservoirSnapshot, base: Base
) -> list[tuple[float, float]]:
    """Return the images since the base, of all other streams and of this one, by expert."""
    weights: list[tuple[float, float]] = []
    for index, before in enumerate(base.tallies):
        others = common.experts[index].tally.images - before["images"]
        own = learned.experts[index].tally.images
        # Pooling may move an expert without images. If no other stream has changed it, the
        # stream's version is the newest.
        untouched = revisions[index] == base.revisions[index]
        weights.append((0, 1) if untouched else (others, own))
    return weights


def _is_same(one: Expert, other: Expert) -> bool:
    if one.tally != other.tally:
        return False
    return same((one.parameters, one.method), (other.parameters, other.method))


def load_merged(
    snapshot: ReservoirSnapshot, pipeline: ReservoirPipeline, numbering: Sequence[int]
) -> None:
    """Load merged experts into a pipeline in the middle of its stream.

    The experts and the states of method, router, guard, pooling and alignment are the merged ones.
    The position in the stream, the random generators of the method and the counts of the run do
    not change.

    Args:
        snapshot: The merged experts.
        pipeline: A pipeline that fits them, as :func:`.load_snapshot` checks.
        numbering: The number in ``snapshot`` of each expert that the pipeline has now.
    """
    own = take_snapshot(pipeline, {})
    last = pipeline.reservoir.state_dict()["stream"]["last"]
    shared = {**snapshot.shared, "method": own.shared["method"]}
    for name in snapshot.components:
        stream = own.shared[name].get("stream")
        stream = snapshot.part(name).renumber_stream(stream, numbering, len(snapshot.experts))
        shared[name] = {**shared[name], "stream": stream}
    last = None if last is None else numbering[last]
    load_experts(replace(snapshot, shared=shared), pipeline, last)
