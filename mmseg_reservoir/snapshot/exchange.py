"""Repeated merging of a stream's experts into the reservoir that several streams share.

The stream and the common reservoir share a *base*: the experts that the stream took over last. To
merge both completely would count the base twice. So

- experts of the base keep their index on both sides and are averaged by the images that each side
  has seen *since the base*; where no other stream has changed one since, the stream's is taken;
- experts that the stream has opened since are matched with those that are new to it by the router,
  as :func:`.merge` does; experts without a match are appended;
- images, visits, updates, ages and events are added, each counted once.
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
    """The counts of a common reservoir at the time when a stream took it over.

    Args:
        tallies: Tally of each expert.
        progress: Progress of each component (:meth:`.ReservoirPart.progress`).
        revisions: Number of the last change of each expert.
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
        """Return plain JSON values, from which ``Base(**plain)`` restores the base."""
        return dict(vars(self))


def delta(snapshot: ReservoirSnapshot, base: Base | None) -> ReservoirSnapshot:
    """Return a stream's experts with their counts since its base; without a base, as they are."""
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
    """Merge what a stream has learned into the common reservoir.

    Args:
        common: The common reservoir.
        revisions: Number of the last change of each of its experts.
        learned: The :func:`delta` of the stream.
        base: The base of that delta; None if the stream began with the source model.

    Returns:
        The merge, and the revisions after it.
    """
    weights = [] if base is None else _weights(common, revisions, learned, base)
    matched = max(1, len(weights))
    merged = merge_experts(common, learned, matched=matched, weights=weights)
    return merged, revised(common.experts, revisions, merged.snapshot.experts)


def revised(before: Sequence[Expert], revisions: Sequence[int], now: Sequence[Expert]) -> list[int]:
    """Return the revisions of experts after a merge; changed and new ones get the next number."""
    change = 1 + max(revisions, default=0)
    return [
        revisions[i] if i < len(before) and _is_same(before[i], expert) else change
        for i, expert in enumerate(now)
    ]


def _weights(
    common: ReservoirSnapshot, revisions: Sequence[int], learned: ReservoirSnapshot, base: Base
) -> list[tuple[float, float]]:
    """Return the images of each base expert since the base: those of all others, and own ones."""
    weights: list[tuple[float, float]] = []
    for index, before in enumerate(base.tallies):
        others = common.experts[index].tally.images - before["images"]
        own = learned.experts[index].tally.images
        # Pooling also changes experts that have seen no image. If no other stream has changed the
        # expert, the stream's version is the newest one and gets all of the weight.
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

    The experts, the states of their methods (moments of optimizers, teachers) and the states of
    the components, such as router and guard, are replaced by the merged ones. The position in the
    stream, the random generators of the method and the counts of the run do not change.

    Args:
        snapshot: The merged reservoir, which includes the experts of the pipeline.
        pipeline: A pipeline with the same model and options. This is not checked.
        numbering: Index in ``snapshot`` of each expert of the pipeline.
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
