"""The task-independent core: torch only."""

from .calibration import Calibration
from .losses import entropy, information_loss
from .memory import StyleMemory
from .params import ParamSpace, norm_affine, use_batch_statistics
from .pipeline import AdaptationPipeline, Outcome, ReservoirPipeline, SingleModelPipeline
from .reservoir import Reservoir
from .router import OracleRouter, Route, Router, StyleRouter
from .style import StyleEncoder

__all__ = [
    "AdaptationPipeline",
    "Calibration",
    "OracleRouter",
    "Outcome",
    "ParamSpace",
    "Reservoir",
    "ReservoirPipeline",
    "Route",
    "Router",
    "SingleModelPipeline",
    "StyleEncoder",
    "StyleMemory",
    "StyleRouter",
    "entropy",
    "information_loss",
    "norm_affine",
    "use_batch_statistics",
]
