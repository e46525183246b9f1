"""Where a batch goes: what routers say and pipelines do."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Route:
    """Where a batch goes.

    Args:
        index: The expert that adapts.
        weights: The share of every expert in the prediction, ``(K,)``, sums to one.
        is_new: Whether expert ``index`` has to be created first.
    """

    index: int
    weights: Tensor
    is_new: bool
