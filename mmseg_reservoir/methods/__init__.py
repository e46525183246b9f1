"""Adaptation methods, one per file. They do not depend on the reservoir."""

from .base import AdaptationMethod, Forward, OptimizerFactory
from .becotta import Becotta
from .cola import Cola
from .cotta import Cotta
from .cotta_images import CottaImages
from .dpcore import DPCore
from .eata import Eata
from .eta import Eta
from .petta import Petta
from .rdumb import RDumb
from .roid import Roid
from .rotta import Rotta
from .sar import Sar
from .source import Align, Norm, Source
from .tent import Tent
from .vpt import Vpt

__all__ = [
    "AdaptationMethod",
    "Align",
    "Becotta",
    "Cola",
    "Cotta",
    "CottaImages",
    "DPCore",
    "Eata",
    "Eta",
    "Forward",
    "Norm",
    "OptimizerFactory",
    "Petta",
    "RDumb",
    "Roid",
    "Rotta",
    "Sar",
    "Source",
    "Tent",
    "Vpt",
]
