"""Which of a model's own parameters adapt: those of normalisation layers, or all."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..registry import choose, register
from .base import modules_below, nothing_to_adapt

NORM_TYPES: dict[str, type[nn.Module]] = {
    "LayerNorm": nn.LayerNorm,
    "BatchNorm": _BatchNorm,
    "GroupNorm": nn.GroupNorm,
}


@register("params", "norm_affine")
def norm_affine(
    model: nn.Module,
    under: str = "",
    types: tuple[str, ...] = tuple(NORM_TYPES),
    skip: tuple[str, ...] = (),
) -> dict[str, nn.Parameter]:
    """Select the weights and biases of normalisation layers: what TENT and the paper adapt.

    Args:
        model: The model to look into.
        under: Only modules below this name (``"backbone"`` for the paper's segmentation rows).
        types: Which kinds of normalisation, out of ``NORM_TYPES``.
        skip: Leave out modules with these names and what is below them. A name may begin anywhere
            in the model: ``"layer4"`` is also ``"backbone.layer4"``, but not ``"layer40"``.
    """
    kinds = tuple(choose(t, NORM_TYPES, "kind of normalisation") for t in types)
    selected = {
        f"{name}.{leaf}": parameter
        for name, module in modules_below(model, under).items()
        if isinstance(module, kinds) and not any(f".{s}." in f".{name}." for s in skip)
        for leaf, parameter in module.named_parameters(recurse=False)
    }
    return selected or nothing_to_adapt(model, f"affine {'/'.join(types)} parameters", under)


@register("params", "all")
def all_parameters(model: nn.Module, under: str = "") -> dict[str, nn.Parameter]:
    """Select every parameter below a name, as the full CoTTA does."""
    selected = {
        name: parameter
        for name, parameter in model.named_parameters()
        if not under or name.startswith(f"{under}.")
    }
    return selected or nothing_to_adapt(model, "parameters", under)
