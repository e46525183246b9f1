"""Adapted parameters: those of a model, or those added to it."""

from .base import ParamSpace
from .lora import lora_space
from .normalization import read_batch_share, set_batch_share, use_batch_statistics
from .prompt import prompt_space
from .selections import all_parameters, becotta_params, norm_affine

__all__ = [
    "ParamSpace",
    "all_parameters",
    "becotta_params",
    "lora_space",
    "norm_affine",
    "prompt_space",
    "read_batch_share",
    "set_batch_share",
    "use_batch_statistics",
]
