"""The task-independent core: torch only."""

from .calibrate import calibrate
from .calibration import Calibration
from .clustering import InformationClustering, KMeansClustering, SinkhornClustering
from .domain_reset import DomainResetPipeline
from .encoder import Encoder
from .image_range import ImageRange
from .losses import entropy, information_loss
from .memory import ReservoirSampling, StyleMemory
from .model_style import ModelStyleEncoder
from .normalisation import Statistics, use_batch_statistics
from .params import ParamSpace, all_parameters, norm_affine
from .pipeline import (
    AdaptationPipeline,
    Outcome,
    ReservoirPipeline,
    SingleModelPipeline,
)
from .reservoir import Reservoir
from .router import OracleRouter, Route, Router, StyleRouter
from .segment_router import SegmentRouter
from .style import StyleEncoder
from .style_space import StyleSpace

__all__ = [
    "AdaptationPipeline",
    "Calibration",
    "DomainResetPipeline",
    "Encoder",
    "ImageRange",
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
    "SegmentRouter",
    "SingleModelPipeline",
    "SinkhornClustering",
    "Statistics",
    "StyleEncoder",
    "StyleMemory",
    "StyleRouter",
    "StyleSpace",
    "all_parameters",
    "calibrate",
    "entropy",
    "information_loss",
    "norm_affine",
    "use_batch_statistics",
]
