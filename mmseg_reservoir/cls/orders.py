"""Orders of images and batches. Everything random comes from the generator that is passed in."""

from __future__ import annotations

import numpy as np

MOST_SLOTS = 100


def split_by_dirichlet(
    count: int, parts: int, concentration: float, rng: np.random.Generator
) -> list[int]:
    """Sizes of ``parts`` shares of ``count`` things, drawn from a symmetric Dirichlet."""
    shares = rng.dirichlet([concentration] * parts)
    cuts = np.floor(np.cumsum(shares)[:-1] * count).astype(int)
    return np.diff([0, *cuts, count]).tolist()


def correlated(
    labels: np.ndarray, concentration: float, rng: np.random.Generator, slots: int | None = None
) -> np.ndarray:
    """An order in which images of a class come together (NOTE, RoTTA: Yuan et al., CVPR 2023).

    Time is cut into slots. Each class spreads its images over them by its own draw from a
    Dirichlet distribution: the smaller the concentration, the fewer slots get most of them.

    Args:
        labels: The class of every image.
        concentration: RoTTA and the paper use 0.1.
        rng: Source of randomness.
        slots: How many; by default as many as classes, but at most 100, as in RoTTA.
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
    """The domain of every batch, if all orders of the domains' batches are equally likely."""
    return rng.permutation(np.repeat(np.arange(len(batches)), batches)).tolist()


def dirichlet_turns(
    batches: list[int], rng: np.random.Generator, concentration: float = 1.0, slots: int = 3
) -> list[int]:
    """The domain of every batch, if domains recur with varying frequency and duration.

    This is Continual Dynamic Change as DPCore defined it (Zhang et al., ICML 2025): each domain
    spreads its batches over a few slots by a draw from a Dirichlet distribution, and within a slot
    the domains come one after the other, in random order.
    """
    sizes = [split_by_dirichlet(count, slots, concentration, rng) for count in batches]
    turns = []
    for slot in range(slots):
        for domain in rng.permutation(len(batches)):
            turns += [int(domain)] * sizes[domain][slot]
    return turns
