"""The task-independent core: pipelines around a method, and their reservoir. Torch only."""

from .domain_reset import DomainResetPipeline
from .image_range import ImageRange
from .losses import entropy, information_loss
from .pipeline import AdaptationPipeline, Outcome, SingleModelPipeline
from .reservoir import Reservoir
from .reservoir_pipeline import ReservoirPipeline
from .route import Route

__all__ = [
    "AdaptationPipeline",
    "DomainResetPipeline",
    "ImageRange",
    "Outcome",
    "Reservoir",
    "ReservoirPipeline",
    "Route",
    "SingleModelPipeline",
    "entropy",
    "information_loss",
]
