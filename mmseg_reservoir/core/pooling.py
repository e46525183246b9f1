"""Pooling: what one expert learns, the others learn in part."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..option_types import NonNegative
from ..registry import register
from .reservoir_part import ReservoirPart, State, padded


class Pooling(ReservoirPart):
    """Decides which share of an expert's update the others make, too."""

    @abstractmethod
    def shares(self, index: int, count: int, images: int) -> Tensor:
        """Note an update of an expert; the share of it for each of ``count`` experts, ``(K,)``.

        That of the expert itself is 0: it has made the update already.

        Args:
            index: The expert.
            count: How many experts there are.
            images: How many images the update is of.
        """


@register("pooling", "evidence")
class EvidencePooling(Pooling):
    """By evidence: an expert that learned from ``n_i`` images takes ``n0 / (n0 + n_i)`` of others'.

    A young expert follows the others, an old one relies on its own images. The weight is that of an
    empirical Bayes estimate: the mean of all against ``n_i`` observations of one expert. With
    ``n0 = 0`` nothing is shared, with a large one all experts are one.

    Args:
        n0: Number of its images at which an expert weighs them as much as the updates of others.
            Images are counted, as an update by a large batch is better than one by a single frame.
            Defaults to 8000.
    """

    def __init__(self, n0: NonNegative = 8000.0) -> None:
        self.n0 = n0
        self.images: list[int] = []

    def shares(self, index: int, count: int, images: int) -> Tensor:
        self.images += [0] * (count - len(self.images))
        self.images[index] += images
        own = torch.tensor(self.images, dtype=torch.float)
        shares = 1 / (1 + own / self.n0) if self.n0 else torch.zeros_like(own)
        shares[index] = 0.0
        return shares

    def state_dict(self) -> State:
        return {"shared": {}, "experts": [{"images": count} for count in self.images]}

    def load_state_dict(self, state: State) -> None:
        self.images = _images(state)

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        return {"images": one["images"] + other["images"]}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        return {"images": _images(state)}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        now = _images(state)
        pairs = zip(now, padded(progress["images"], len(now), 0), strict=True)
        return {**state, "experts": [{"images": count - before} for count, before in pairs]}


def _images(state: State) -> list[int]:
    return [0 if entry is None else entry["images"] for entry in state["experts"]]
