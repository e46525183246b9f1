"""Pooling: what one expert learns, the others learn in part."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..option_types import NonNegative
from ..registry import register
from .reservoir_part import ReservoirPart, State, padded


class Pooling(ReservoirPart):
    """Decides how much of an expert's update the other experts take."""

    @abstractmethod
    def shares(self, index: int, count: int, images: int) -> Tensor:
        """Count an update of an expert; return its weight for each of ``count`` experts, ``(K,)``.

        The weight for the expert itself is 0: it has made the update already.

        Args:
            index: The expert.
            count: Number of experts.
            images: Number of images of the update.
        """


@register("pooling", "evidence")
class EvidencePooling(Pooling):
    """Pooling by evidence: an expert of ``n_i`` images takes ``n0 / (n0 + n_i)`` of other updates.

    An expert with few images follows the others, one with many relies on its own. The weight is
    that of an empirical Bayes estimate: the mean of all experts against ``n_i`` observations of
    one. With ``n0 = 0`` nothing is pooled; with a very large ``n0`` all experts are one.

    Args:
        n0: Number of images at which an expert weighs its own updates as much as those of others.
            Images are counted, not updates, since a large batch gives a better update than a
            single frame. Defaults to 8000.
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
