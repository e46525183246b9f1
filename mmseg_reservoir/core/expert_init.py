"""What a new expert starts from: strategies for the birth of an expert."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from .losses import information_loss
from .reservoir import Reservoir, State

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod

ExpertInit = Callable[[Reservoir, "AdaptationMethod", Tensor], tuple[Tensor, State]]
"""``(reservoir, method, inputs) -> (parameters, state)`` of the new expert."""


def from_best_expert(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Clone the expert whose predictions on the batch have the lowest L_MI (paper, Eq. 11)."""
    scores = []
    for index in range(len(reservoir)):
        method.load(*reservoir.checkout(index))
        score = float(information_loss(method.predict(inputs)))
        scores.append(math.inf if math.isnan(score) else score)  # never clone a broken expert
    best = min(range(len(scores)), key=scores.__getitem__)
    parameters, state = reservoir.checkout(best)
    return parameters, method.inherit_domain_state(state)


def from_source(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Start from the source model with a fresh state."""
    return reservoir.source, method.fresh_domain_state()


EXPERT_INITS: dict[str, ExpertInit] = {"mi": from_best_expert, "source": from_source}
