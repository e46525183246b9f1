"""The route of a batch, which a router returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Route:
    """The expert of a batch, and the weights of all experts in its prediction.

    Args:
        index: Index of the expert that adapts.
        weights: Weight of every expert in the prediction, ``(K,)``, with sum 1.
        is_new: Whether expert ``index`` must be created first.
        fits: Whether the batch fits the domain of that expert. Otherwise it may belong to an
            unknown domain. Defaults to True.
    """

    index: int
    weights: Tensor
    is_new: bool
    fits: bool = True

    @property
    def entropy(self) -> float:
        """Return the entropy of the weights, in nats; 0 for one-hot weights."""
        return float(torch.special.entr(self.weights.double()).sum())
