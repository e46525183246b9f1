"""The task-independent core: torch only."""

from .calibration import Calibration
from .clustering import InformationClustering, KMeansClustering, SinkhornClustering
from .domain_reset import DomainResetPipeline
from .losses import entropy, information_loss
from .memory import ReservoirSampling, StyleMemory
from .model_style import ModelStyleEncoder
from .params import ParamSpace, norm_affine, use_batch_statistics
from .pipeline import (
    AdaptationPipeline,
    Outcome,
    ReservoirPipeline,
    SingleModelPipeline,
)
from .reservoir import Reservoir
from .router import OracleRouter, Route, Router, StyleRouter
from .style import StyleEncoder

__all__ = [
    "AdaptationPipeline",
    "Calibration",
    "DomainResetPipeline",
    "InformationClustering",
    "KMeansClustering",
    "ModelStyleEncoder",
    "OracleRouter",
    "Outcome",
    "ParamSpace",
    "Reservoir",
    "ReservoirPipeline",
    "ReservoirSampling",
    "Route",
    "Router",
    "SingleModelPipeline",
    "SinkhornClustering",
    "StyleEncoder",
    "StyleMemory",
    "StyleRouter",
    "entropy",
    "information_loss",
    "norm_affine",
    "use_batch_statistics",
]
