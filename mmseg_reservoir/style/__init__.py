"""What an image looks like: encoders, their statistics, and what the source looks like."""

from .calibrate import calibrate
from .calibration import Calibration
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
