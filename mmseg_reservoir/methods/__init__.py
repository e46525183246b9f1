"""Adaptation methods: one file each. They know nothing of the reservoir."""

from .base import (
    METHODS,
    AdaptationMethod,
    Forward,
    OptimizerFactory,
    find_method,
    register_method,
)
from .source import Source
from .tent import Tent

__all__ = [
    "METHODS",
    "AdaptationMethod",
    "Forward",
    "OptimizerFactory",
    "Source",
    "Tent",
    "find_method",
    "register_method",
]
