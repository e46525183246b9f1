"""What may adapt, by name; segmentation and classification share this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def build_space(model: nn.Module, params: Mapping[str, Any]) -> ParamSpace:
    """The parameter space that ``params=dict(type=..., **options)`` asks for."""
    options = dict(params)
    make = choose(options.pop("type", "norm_affine"), SPACES, "params.type")
    made = construct(make, options, "params", model=model)
    return made if isinstance(made, ParamSpace) else ParamSpace(model, made)
