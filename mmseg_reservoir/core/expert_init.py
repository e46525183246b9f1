"""Initialization of a new expert: strategies for its parameters and state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from torch import Tensor

from ..option_types import Registered
from ..registry import register
from .losses import information_loss
from .reservoir import Reservoir
from .reservoir_part import State

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod

ExpertInit = Callable[[Reservoir, "AdaptationMethod", Tensor], tuple[Tensor, State]]
"""``(reservoir, method, inputs) -> (parameters, state)`` of the new expert."""

InitOption = Annotated[str | Callable[..., Any], Registered("init")]

_TOP = 3  # experts in the ensemble of ``from_top_experts``, as in the paper's appendix


def ranking(reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor) -> list[int]:
    """Return the experts, sorted by the L_MI of their predictions on the batch, best first."""
    scores = []
    for index in range(len(reservoir)):
        method.load(*reservoir.checkout(index))
        score = float(information_loss(method.predict(inputs)))
        scores.append(math.inf if math.isnan(score) else score)  # never clone a broken expert
    return sorted(range(len(scores)), key=scores.__getitem__)


@register("init", "mi")
def from_best_expert(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Clone the expert with the lowest L_MI (paper, Eq. 11), with the optimizer's moments."""
    parameters, state = reservoir.checkout(ranking(reservoir, method, inputs)[0])
    return parameters, method.inherit_domain_state(state)


@register("init", "mi_fresh")
def from_best_expert_fresh(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Clone the parameters of the best expert, but not its optimizer's moments."""
    parameters, _ = reservoir.checkout(ranking(reservoir, method, inputs)[0])
    return parameters, method.fresh_domain_state()


@register("init", "top3")
def from_top_experts(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Average the three best experts, with a fresh state, since no expert's moments fit."""
    best = ranking(reservoir, method, inputs)[:_TOP]
    return reservoir.experts[best].mean(dim=0), method.fresh_domain_state()


@register("init", "source")
def from_source(
    reservoir: Reservoir, method: AdaptationMethod, inputs: Tensor
) -> tuple[Tensor, State]:
    """Start from the source model with a fresh state."""
    return reservoir.source, method.fresh_domain_state()
