"""Merging again and again: what a stream has learned since it last took over what all know.

A stream and the common reservoir have a past in common, the *base*: the experts that the stream
took over last. Merging both whole would count the base twice. So

- experts of the base keep their numbers on both sides and are averaged by the images that each
  side has seen *since the base*; one that nobody else has changed since becomes the stream's;
- experts that the stream has opened since are matched by the router's own test with those that
  are new to it, as :func:`.merge` does, and else stand beside them;
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
    """Where a stream took over a common reservoir, in numbers.

    Args:
        tallies: What each of its experts had met by then.
        progress: How far each component had come (:meth:`.ReservoirPart.progress`).
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
        """As plain JSON values: ``Base(**plain)`` undoes it."""
        return dict(vars(self))


def delta(snapshot: ReservoirSnapshot, base: Base | None) -> ReservoirSnapshot:
    """What a stream has learned since its base: its experts as they are, counts from then on."""
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
    """Merge what a stream has learned into what all know.

    Args:
        common: What all know.
        revisions: The number of the last change of each of its experts.
        learned: The :func:`delta` of a stream.
        base: What these are counted from; None: from the source model.

    Returns:
        The merge, and the revisions after it.
    """
    weights = [] if base is None else _weights(common, revisions, learned, base)
    matched = max(1, len(weights))
    merged = merge_experts(common, learned, matched=matched, weights=weights)
    return merged, revised(common.experts, revisions, merged.snapshot.experts)


def revised(before: Sequence[Expert], revisions: Sequence[int], now: Sequence[Expert]) -> list[int]:
    """The revisions of experts, some of which are as they were."""
    change = 1 + max(revisions, default=0)
    return [
        revisions[i] if i < len(before) and _is_same(before[i], expert) else change
        for i, expert in enumerate(now)
    ]


def _weights(
    common: ReservoirSnapshot, revisions: Sequence[int], learned: ReservoirSnapshot, base: Base
) -> list[tuple[float, float]]:
    """Images since the base: that all others brought, and that the stream brings."""
    weights: list[tuple[float, float]] = []
    for index, before in enumerate(base.tallies):
        others = common.experts[index].tally.images - before["images"]
        own = learned.experts[index].tally.images
        # Without images an expert may have moved along with others (pooling). Where nobody else
        # has touched it, that is all there is to know of it.
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

    Experts, the states of their methods (moments of optimizers, teachers), what recognizes their
    domains, and the state of guard and pooling are the merged ones. The position in the stream, the
    random generators of the method and the counts of the run stay.

    Args:
        snapshot: That it has merged its experts into.
        pipeline: With the model and the options of these, as :func:`put` would check.
        numbering: The number there of each expert that it has now.
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
