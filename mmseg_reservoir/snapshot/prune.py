"""Remove experts from a reservoir."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import ReservoirError
from .reservoir_snapshot import ReservoirSnapshot


def prune(snapshot: ReservoirSnapshot, experts: Collection[int]) -> ReservoirSnapshot:
    """Return the reservoir without the given experts; later experts move up.

    Their domains are removed, too. A stream that meets such a domain again opens a new one.
    """
    count = len(snapshot.experts)
    for index in experts:
        if not 0 < index < count:
            why = "that of the source, to which others are reset" if index == 0 else "not there"
            raise ReservoirError(
                f"expert {index} cannot be removed: it is {why}. Choose from 1 to {count - 1}"
            )
    kept = [expert for index, expert in enumerate(snapshot.experts) if index not in set(experts)]
    return snapshot if len(kept) == count else snapshot.with_experts(kept)


def unused(snapshot: ReservoirSnapshot) -> list[int]:
    """Return the experts that have seen no image, without that of the source."""
    return [i for i, e in enumerate(snapshot.experts) if i and not e.tally.images]


def least_used(snapshot: ReservoirSnapshot, number: int) -> list[int]:
    """Return the ``number`` experts with the fewest images, without that of the source."""
    if not 0 <= number < len(snapshot.experts):
        raise ReservoirError(
            f"{number} experts cannot be removed: there are {len(snapshot.experts) - 1} beside "
            "that of the source"
        )
    by_images = sorted(range(1, len(snapshot.experts)), key=lambda i: _images(snapshot, i))
    return by_images[:number]


def _images(snapshot: ReservoirSnapshot, index: int) -> int:
    return snapshot.experts[index].tally.images
