"""Selections of adapting parameters: those of normalization layers, BECoTTA's, or all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..becotta.inject import DOMAINS, inject, select_becotta
from ..becotta.store import load
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
    """Select the weights and biases of normalization layers, as TENT and the paper do.

    Args:
        model: The model.
        under: Name of the module to search (``"backbone"`` for the paper's segmentation rows).
            Defaults to the whole model.
        types: Types of normalization, from ``NORM_TYPES``. Defaults to all.
        skip: Names of modules to leave out with all their children. ``"layer4"`` also matches
            ``"backbone.layer4"``, but not ``"layer40"``. Defaults to ``()``.
    """
    kinds = tuple(choose(t, NORM_TYPES, "kind of normalization") for t in types)
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


@register("params", "becotta")
def becotta_params(
    model: nn.Module,
    variant: str | Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    under: str = "backbone",
    blend: bool = False,
    seed: int = 0,
) -> dict[str, nn.Parameter]:
    """Inject BECoTTA into a loaded model, and select its experts and gates.

    Args:
        model: A SegFormer of mmseg.
        variant: Size of the mixtures, as in :func:`inject`. Defaults to that of the file, or to S
            without a file.
        weights: File of ``reservoir warmup``. Defaults to None, no warm-up: the mixtures start as
            the identity and share one gate, which makes BECoTTA a plain adapter method.
        under: Name of the model's backbone. Defaults to ``"backbone"``.
        blend: Whether to blend gates, see :func:`inject`. Defaults to False.
        seed: Seed of the initial values without a file. Defaults to 0.
    """
    if weights is None:
        # An untrained discriminator cannot distinguish domains, so use a single one.
        inject(model, variant or "S", DOMAINS[:1], under, blend, seed)
    else:
        load(weights, model, variant, under, blend)
    return select_becotta(model)
