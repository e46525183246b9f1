"""Removing experts from a reservoir."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import ReservoirError
from .reservoir_snapshot import ReservoirSnapshot


def prune(snapshot: ReservoirSnapshot, experts: Collection[int]) -> ReservoirSnapshot:
    """Return a reservoir without some of its experts; the others are renumbered.

    Their domains are removed, too, and count as new if they come again.
    """
    count = len(snapshot.experts)
    for index in experts:
        if not 0 < index < count:
            why = "that of the source, which all others go back to" if index == 0 else "not there"
            raise ReservoirError(
                f"expert {index} cannot be removed: it is {why}. There are 1 to {count - 1}"
            )
    kept = [expert for index, expert in enumerate(snapshot.experts) if index not in set(experts)]
    return snapshot if len(kept) == count else snapshot.with_experts(kept)


def unused(snapshot: ReservoirSnapshot) -> list[int]:
    """The experts, but the source's, that have adapted to no image."""
    return [i for i, e in enumerate(snapshot.experts) if i and not e.tally.images]


def least_used(snapshot: ReservoirSnapshot, number: int) -> list[int]:
    """So many experts, but not the source's, that have seen the fewest images."""
    if not 0 <= number < len(snapshot.experts):
        raise ReservoirError(
            f"{number} experts cannot be removed: there are {len(snapshot.experts) - 1} beside "
            "that of the source"
        )
    by_images = sorted(range(1, len(snapshot.experts)), key=lambda i: _images(snapshot, i))
    return by_images[:number]


def _images(snapshot: ReservoirSnapshot, index: int) -> int:
    return snapshot.experts[index].tally.images
