"""The reservoir around any torch classifier. Needs neither mmseg nor mmcv."""

from .classifier import AdaptiveClassifier

__all__ = ["AdaptiveClassifier"]
