"""Routers, which choose the expert of a batch and detect new styles."""

from .base import Router
from .clustering import InformationClustering, KMeansClustering, SinkhornClustering
from .oracle import OracleRouter
from .segment_router import SegmentRouter
from .style_memory import ReservoirSampling, StyleMemory
from .style_router import StyleRouter

__all__ = [
    "InformationClustering",
    "KMeansClustering",
    "OracleRouter",
    "ReservoirSampling",
    "Router",
    "SegmentRouter",
    "SinkhornClustering",
    "StyleMemory",
    "StyleRouter",
]
