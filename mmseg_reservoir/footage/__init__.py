"""Segment videos, folders, cameras and single frames, and adapt to them."""

from .. import seg  # noqa: F401 (has to run before any import of mmseg)
from .frame_source import FrameResult
from .inferencer import ReservoirInferencer

__all__ = ["FrameResult", "ReservoirInferencer"]
