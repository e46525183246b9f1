"""Merge the reservoirs of two cameras: experts of the same domain are averaged into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from ..core.reservoir import Tally
from ..core.reservoir_part import State
from ..core.state import tensor_bytes
from ..errors import ReservoirError
from .reservoir_snapshot import Expert, ReservoirSnapshot, explained
from .source_identity import describe_differences

Weights = tuple[float, float]
"""Weights of two experts that are averaged into one."""


class NoRoomError(ReservoirError):
    """The merged reservoir would have too many experts. Nothing is merged."""


@dataclass(frozen=True)
class Merge:
    """The result of merging two reservoirs.

    Args:
        snapshot: The merged reservoir: the experts of the first, each averaged with its match,
            then those of the second without a match.
        matches: For each expert of the second, the index of its match in the first, or None.
    """

    snapshot: ReservoirSnapshot
    matches: list[int | None]

    @property
    def numbering(self) -> list[int]:
        """The index in ``snapshot`` of each expert of the second."""
        alone = count(len(self.snapshot.experts) - self.matches.count(None))
        return [next(alone) if match is None else match for match in self.matches]


@explained
def merge(one: ReservoirSnapshot, other: ReservoirSnapshot, k_max: int | None = None) -> Merge:
    """Merge two reservoirs that began with the same model and calibration.

    The router matches experts of the same domain, the nearest pair first. An expert has at most one
    match, so that domains which one reservoir separates are not merged. The source experts always
    match. Matched experts are averaged by the number of images that they have seen, and so are the
    moments of their optimizers. The rest of a method's state is that of the expert with more
    images.

    Args:
        one: The first reservoir.
        other: The second reservoir. The order only affects the numbering of experts.
        k_max: Largest number of experts. Defaults to the larger one of both reservoirs.
    """
    if same(*([_plain(expert) for expert in each.experts] for each in (one, other))):
        raise ReservoirError(
            "the two reservoirs hold the same experts, one is a copy of the other: give the "
            "reservoirs of two runs"
        )
    return merge_experts(one, other, k_max)


def merge_experts(
    one: ReservoirSnapshot,
    other: ReservoirSnapshot,
    k_max: int | None = None,
    matched: int = 1,
    weights: Sequence[Weights] = (),
) -> Merge:
    """Merge as :func:`merge` does, also reservoirs that share experts from an earlier merge.

    Args:
        one: The first reservoir.
        other: The second reservoir.
        k_max: Largest number of experts. Defaults to the larger one of both reservoirs.
        matched: The first so many experts have the same index in both, and match. Defaults to 1,
            that of the source.
        weights: Weights of the first experts. The others are weighted by the number of images that
            they have seen. Defaults to none.
    """
    changes = describe_differences(one.kinds, other.kinds)
    # Options can only be compared between components of the same kind.
    changes = changes or describe_differences(one.identity["options"], other.identity["options"])
    if changes:
        raise ReservoirError(
            f"the reservoirs cannot be merged, they differ: {'; '.join(changes)}. Merge reservoirs "
            "with the same model, calibration (reservoir.calibration.file) and options"
        )
    room = max(one.k_max, other.k_max) if k_max is None else k_max
    if same(_whole(one), _whole(other)):
        matches: list[int | None] = list(range(len(other.experts)))
        return Merge(replace(one, k_max=_checked(room, one, other, matches)), matches)
    matches = find_matches(one, other, matched)
    room = _checked(room, one, other, matches)
    moved = [_beside(one, expert) for expert in other.experts]
    experts = list(one.experts)
    for index, match in enumerate(matches):
        if match is None:
            experts.append(moved[index])
        elif not same(_plain(one.experts[match]), _plain(other.experts[index])):
            weight = weights[index] if index < len(weights) else None
            experts[match] = average(one, one.experts[match], moved[index], weight)
    shared = {}
    for name in one.components:
        part, options = one.part(name), one.options(name)
        common = part.merge_shared(options, *(c.shared[name]["shared"] for c in (one, other)))
        shared[name] = {**one.shared[name], "shared": common}
    return Merge(replace(one.with_experts(experts, shared), k_max=room), matches)


def find_matches(
    one: ReservoirSnapshot, other: ReservoirSnapshot, matched: int = 1
) -> list[int | None]:
    """Return the match in ``one`` of every expert of ``other``, by the router's distance.

    The first ``matched`` experts match those of the same index.
    """
    distance, options = one.part("router").distance, one.options("router")
    shared = one.shared["router"]["shared"]
    pairs = []
    for j, theirs in enumerate(other.experts[matched:], start=matched):
        for i, ours in enumerate(one.experts[matched:], start=matched):
            a, b = ours.parts["router"], theirs.parts["router"]
            near = -torch.inf if same(a, b) else distance(options, shared, a, b)
            if near <= 1:
                pairs.append((near, i, j))
    matches: list[int | None] = [*range(matched), *[None] * (len(other.experts) - matched)]
    for _, i, j in sorted(pairs):
        if matches[j] is None and i not in matches:
            matches[j] = i
    return matches


def average(
    snapshot: ReservoirSnapshot, one: Expert, other: Expert, weights: Weights | None = None
) -> Expert:
    """Return the weighted mean of two experts of the same domain.

    Counts are added. They are all that an expert with weight 0 contributes, if the other one has a
    weight above 0.

    Args:
        snapshot: The reservoir of the first expert.
        one: The first expert.
        other: The second expert.
        weights: Weights of the two. Defaults to the number of images that each has seen.
    """
    weights = (one.tally.images, other.tally.images) if weights is None else weights
    # The one with more weight comes first; a tie must not depend on the order of the arguments.
    (weight, one), (less, other) = sorted(
        zip(weights, (one, other), strict=True),
        key=lambda pair: (pair[0], tensor_bytes(pair[1].parameters)),
        reverse=True,
    )
    total = weight + less
    share = less / total if total else 0.5
    layout = snapshot.layout
    state = dict(one.method)
    if share:
        for name in snapshot.shared["parameter_like"]:
            state[name] = _average_vectors(layout, state[name], other.method[name], share)
        # The moments of low-rank factors do not apply to averaged products.
        state["optimizer"] = (
            _average_moments(state["optimizer"], other.method["optimizer"], share)
            if layout.scaling is None
            else {}
        )
    parts = {name: _merged_entry(snapshot, name, one, other, share) for name in one.parts}
    mine, theirs = asdict(one.tally), asdict(other.tally)
    tally = Tally(**{name: mine[name] + theirs[name] for name in mine})
    parameters = (
        layout.average(one.parameters, other.parameters, share) if share else one.parameters
    )
    return Expert(parameters, state, tally, parts)


def same(one: Any, other: Any) -> bool:
    """Return whether two states are exactly equal."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def _average_vectors(layout: Any, one: Tensor | None, other: Tensor | None, share: float) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return layout.average(one, other, share)


def _average_moments(one: State, other: State, share: float) -> State:
    """Return the mean of two optimizers' moments; one without a step does not count."""
    if not one or not other:
        return one or other
    return {
        name: value
        if not isinstance(value, Tensor) or not isinstance(other.get(name), Tensor)
        else torch.maximum(value, other[name])
        if name == "step"
        else torch.lerp(value, other[name], share)
        for name, value in one.items()
    }


def _checked(
    room: int, one: ReservoirSnapshot, other: ReservoirSnapshot, matches: list[int | None]
) -> int:
    """Return ``room``; raise an error if the merged experts are more."""
    alone = [index for index, match in enumerate(matches) if match is None]
    needed = len(one.experts) + len(alone)
    if needed > room:
        raise NoRoomError(
            f"the merged reservoir has {needed} experts, {len(one.experts)} of the first and the "
            f"experts {', '.join(map(str, alone))} of the second, which match none of them, but "
            f"K_max is {room}: prune one of the two, or set --k-max {needed}"
        )
    return room


def _beside(one: ReservoirSnapshot, expert: Expert) -> Expert:
    parts = {
        name: entry and one.part(name).adopt_expert(one.shared[name]["shared"], entry)
        for name, entry in expert.parts.items()
    }
    return replace(expert, parts=parts)


def _merged_entry(
    snapshot: ReservoirSnapshot, component: str, one: Expert, other: Expert, weight: float
) -> State | None:
    first, second = one.parts[component], other.parts[component]
    if first is None or second is None:
        return first or second
    options = snapshot.options(component)
    return snapshot.part(component).merge_expert(options, first, second, weight)


def _plain(expert: Expert) -> State:
    return {**vars(expert), "tally": asdict(expert.tally)}


def _whole(snapshot: ReservoirSnapshot) -> State:
    return {"shared": snapshot.shared, "experts": [_plain(expert) for expert in snapshot.experts]}
