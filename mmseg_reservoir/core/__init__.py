"""The task-independent core: pipelines around a method, and their reservoir. Torch only."""

from .domain_reset import DomainResetPipeline
from .guard import Guard, LabelGuard
from .image_range import ImageRange
from .losses import entropy, information_loss
from .pipeline import AdaptationPipeline, Outcome, SingleModelPipeline
from .pooling import EvidencePooling, Pooling
from .reservoir import Reservoir
from .reservoir_pipeline import ReservoirPipeline
from .route import Route

__all__ = [
    "AdaptationPipeline",
    "DomainResetPipeline",
    "EvidencePooling",
    "Guard",
    "ImageRange",
    "LabelGuard",
    "Outcome",
    "Pooling",
    "Reservoir",
    "ReservoirPipeline",
    "Route",
    "SingleModelPipeline",
    "entropy",
    "information_loss",
]
