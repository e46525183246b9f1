"""What adapts: parameters of a model, or parameters that are added to it."""

from .all import all_parameters
from .base import ParamSpace
from .becotta_params import becotta_params
from .lora import lora_space
from .norm_layers import norm_affine
from .normalisation import Statistics, use_batch_statistics
from .prompt import prompt_space

__all__ = [
    "ParamSpace",
    "Statistics",
    "all_parameters",
    "becotta_params",
    "lora_space",
    "norm_affine",
    "prompt_space",
    "use_batch_statistics",
]
