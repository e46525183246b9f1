"""The task-independent core: pipelines around a method, and their reservoir. Torch only."""

from .alignment import Alignment
from .domain_reset import DomainResetPipeline
from .guard import Guard, LabelGuard
from .image_range import ImageRange
from .losses import entropy, information_loss
from .outcome import Outcome
from .pipeline import AdaptationPipeline, SingleModelPipeline
from .pooling import EvidencePooling, Pooling
from .reservoir import Reservoir
from .reservoir_pipeline import ReservoirPipeline
from .route import Route
from .trigger import EveryTrigger, FirstVisitTrigger, SettledTrigger, Trigger

__all__ = [
    "AdaptationPipeline",
    "Alignment",
    "DomainResetPipeline",
    "EveryTrigger",
    "EvidencePooling",
    "FirstVisitTrigger",
    "Guard",
    "ImageRange",
    "LabelGuard",
    "Outcome",
    "Pooling",
    "Reservoir",
    "ReservoirPipeline",
    "Route",
    "SettledTrigger",
    "SingleModelPipeline",
    "Trigger",
    "entropy",
    "information_loss",
]
