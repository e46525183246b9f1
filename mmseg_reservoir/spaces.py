"""What may adapt, by name; segmentation and classification share this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from torch import nn

from .becotta import becotta_params
from .core.params import ParamSpace, all_parameters, norm_affine
from .lora import lora_space
from .options import choose, construct
from .prompts import prompt_space

SPACES: dict[str, Callable[..., ParamSpace | dict[str, nn.Parameter]]] = {
    "norm_affine": norm_affine,
    "all": all_parameters,
    "lora": lora_space,
    "becotta": becotta_params,
    "prompt": prompt_space,
}
"""Selections of a model's own parameters, and spaces that add some to the model."""


def build_space(model: nn.Module, params: Mapping[str, Any], seed: int = 0) -> ParamSpace:
    """The parameter space that ``params=dict(type=..., **options)`` asks for.

    Args:
        model: Whose parameters.
        params: The options.
        seed: Of what starts at random, unless the options have another.
    """
    options = dict(params)
    make = choose(options.pop("type", "norm_affine"), SPACES, "params.type")
    if "seed" in signature(make).parameters:
        options.setdefault("seed", seed)
    made = construct(make, options, "params", model=model)
    return made if isinstance(made, ParamSpace) else ParamSpace(model, made)
