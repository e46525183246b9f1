"""Removing experts from a reservoir."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import ReservoirError
from .reservoir_snapshot import ReservoirSnapshot


def prune(contents: ReservoirSnapshot, experts: Collection[int]) -> ReservoirSnapshot:
    """The reservoir without some of its experts; those after them move up.

    Their domains are forgotten with them, and are new if they come again.
    """
    count = len(contents.experts)
    for index in experts:
        if not 0 < index < count:
            why = "that of the source, which all others go back to" if index == 0 else "not there"
            raise ReservoirError(
                f"expert {index} cannot be removed: it is {why}. There are 1 to {count - 1}"
            )
    kept = [expert for index, expert in enumerate(contents.experts) if index not in set(experts)]
    return contents if len(kept) == count else contents.with_experts(kept)


def unused(contents: ReservoirSnapshot) -> list[int]:
    """The experts, but the source's, that have adapted to no image."""
    return [i for i, e in enumerate(contents.experts) if i and not e.tally.images]


def least_used(contents: ReservoirSnapshot, number: int) -> list[int]:
    """So many experts, but not the source's, that have seen the fewest images."""
    if not 0 <= number < len(contents.experts):
        raise ReservoirError(
            f"{number} experts cannot be removed: there are {len(contents.experts) - 1} beside "
            "that of the source"
        )
    by_images = sorted(range(1, len(contents.experts)), key=lambda i: _images(contents, i))
    return by_images[:number]


def _images(contents: ReservoirSnapshot, index: int) -> int:
    return contents.experts[index].tally.images
