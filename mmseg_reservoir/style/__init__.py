"""Image styles: encoders, statistics, and the calibration on source images."""

from .calibration import Calibration, calibrate
from .encoder import Encoder
from .model_taps import ModelStyleEncoder
from .space import StyleSpace
from .vgg import StyleEncoder

__all__ = [
    "Calibration",
    "Encoder",
    "ModelStyleEncoder",
    "StyleEncoder",
    "StyleSpace",
    "calibrate",
]
