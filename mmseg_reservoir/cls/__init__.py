"""The reservoir around any torch classifier. Needs neither mmseg nor mmcv."""

from ..datasets import SourceBatches, build_dataset, build_source
from .backbones import build_backbone
from .classifier import AdaptiveClassifier
from .streams import build_stream

__all__ = [
    "AdaptiveClassifier",
    "SourceBatches",
    "build_backbone",
    "build_dataset",
    "build_source",
    "build_stream",
]
