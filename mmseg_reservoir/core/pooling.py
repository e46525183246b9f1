"""Pooling: shares part of an expert's update with the other experts."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..option_types import NonNegative
from ..registry import register
from .reservoir_part import ReservoirPart, State, padded


class Pooling(ReservoirPart):
    """Base class of poolings, which share an expert's update with the other experts."""

    @abstractmethod
    def shares(self, index: int, count: int, images: int) -> Tensor:
        """Count an update of an expert, and return each expert's share of it, ``(K,)``.

        The share of the expert itself is 0, since it already has the update.

        Args:
            index: Index of the expert.
            count: Number K of experts.
            images: Number of images in the batch of the update.
        """


@register("pooling", "evidence")
class EvidencePooling(Pooling):
    """Pooling that gives an expert with ``n_i`` learned images the share ``n0 / (n0 + n_i)``.

    So experts with few images learn most from the others. The share is the weight of the common
    mean in an empirical Bayes estimate with ``n_i`` observations of one expert. With ``n0 = 0``
    nothing is shared. With a very large ``n0`` all experts receive the same updates.

    Args:
        n0: Number of an expert's images at which it receives half of each update of others. Images
            are counted instead of updates, since an update on a large batch is more reliable than
            one on a single frame. Defaults to 8000.
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
