"""Adaptation methods: one file each. They know nothing of the reservoir."""

from .base import (
    METHODS,
    AdaptationMethod,
    Forward,
    OptimizerFactory,
    find_method,
    register_method,
)
from .cotta import Cotta
from .eata import Eata
from .eta import Eta
from .rdumb import RDumb
from .roid import Roid
from .sar import Sar
from .source import Source
from .tent import Tent

__all__ = [
    "METHODS",
    "AdaptationMethod",
    "Cotta",
    "Eata",
    "Eta",
    "Forward",
    "OptimizerFactory",
    "RDumb",
    "Roid",
    "Sar",
    "Source",
    "Tent",
    "find_method",
    "register_method",
]
