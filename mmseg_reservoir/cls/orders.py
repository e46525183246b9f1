"""Random orders of images and batches, all drawn from the generator that is passed in."""

from __future__ import annotations

import numpy as np

MOST_SLOTS = 100


def split_by_dirichlet(
    count: int, parts: int, concentration: float, rng: np.random.Generator
) -> list[int]:
    """Split ``count`` items into ``parts`` sizes by a draw from a symmetric Dirichlet."""
    shares = rng.dirichlet([concentration] * parts)
    cuts = np.floor(np.cumsum(shares)[:-1] * count).astype(int)
    return np.diff([0, *cuts, count]).tolist()


def correlated(
    labels: np.ndarray, concentration: float, rng: np.random.Generator, slots: int | None = None
) -> np.ndarray:
    """Return an order in which classes are clustered (NOTE; RoTTA, Yuan et al., CVPR 2023).

    Each class spreads its images over slots of time by a draw from a Dirichlet distribution. With
    a smaller concentration, fewer slots get most of them.

    Args:
        labels: Class of every image.
        concentration: Concentration of the Dirichlet. RoTTA and the paper use 0.1.
        rng: Random generator.
        slots: Number of slots. Defaults to the number of classes, at most 100, as in RoTTA.
    """
    classes = np.unique(labels)
    slots = slots or min(len(classes), MOST_SLOTS)
    pieces: list[list[np.ndarray]] = [[] for _ in range(slots)]
    for label in classes:
        members = rng.permutation(np.flatnonzero(labels == label))
        sizes = split_by_dirichlet(len(members), slots, concentration, rng)
        for slot, piece in enumerate(np.split(members, np.cumsum(sizes)[:-1])):
            pieces[slot].append(piece)
    return np.concatenate([slot[i] for slot in pieces for i in rng.permutation(len(slot))])


def uniform_turns(batches: list[int], rng: np.random.Generator) -> list[int]:
    """Return the domain of every batch, with all orders of the batches equally likely."""
    return rng.permutation(np.repeat(np.arange(len(batches)), batches)).tolist()


def dirichlet_turns(
    batches: list[int], rng: np.random.Generator, concentration: float = 1.0, slots: int = 3
) -> list[int]:
    """Return the domain of every batch, with domains that recur irregularly.

    This is Continual Dynamic Change as in DPCore (Zhang et al., ICML 2025). Each domain spreads its
    batches over the slots by a draw from a Dirichlet distribution. Within a slot the domains follow
    one another in random order.
    """
    sizes = [split_by_dirichlet(count, slots, concentration, rng) for count in batches]
    turns = []
    for slot in range(slots):
        for domain in rng.permutation(len(batches)):
            turns += [int(domain)] * sizes[domain][slot]
    return turns
