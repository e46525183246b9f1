"""All parameters: what the full CoTTA adapts."""

from __future__ import annotations

from torch import nn

from ..options import register
from .base import nothing_to_adapt


@register("params", "all")
def all_parameters(model: nn.Module, under: str = "") -> dict[str, nn.Parameter]:
    """Select every parameter below a name, as the full CoTTA does."""
    selected = {
        name: parameter
        for name, parameter in model.named_parameters()
        if not under or name.startswith(f"{under}.")
    }
    return selected or nothing_to_adapt(model, "parameters", under)
