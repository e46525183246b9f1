"""The route of a batch: the decision of a router."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Route:
    """Where a batch goes.

    Args:
        index: The expert that adapts.
        weights: The weight of every expert in the prediction, ``(K,)``; they sum to one.
        is_new: Whether expert ``index`` has to be created first.
        fits: Whether the batch looks like the domain of that expert. One that does not may belong
            to a domain that is not known yet. Defaults to True.
    """

    index: int
    weights: Tensor
    is_new: bool
    fits: bool = True

    @property
    def entropy(self) -> float:
        """How undecided it is: the entropy of the weights, in nats; 0 if one-hot."""
        return float(torch.special.entr(self.weights.double()).sum())
