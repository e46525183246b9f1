"""What adapts: parameters of a model, or parameters that are added to it."""

from .base import ParamSpace
from .becotta_params import becotta_params
from .lora import lora_space
from .norm_statistics import Statistics
from .normalisation import use_batch_statistics
from .prompt import prompt_space
from .selections import all_parameters, norm_affine

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
