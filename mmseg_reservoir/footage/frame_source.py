"""Frames, their results, and the base class of their sources."""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.outcome import Outcome
from ..errors import ReservoirError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InputFrame:
    """One frame of a stream.

    Args:
        name: Name without a suffix, including subfolders.
        index: Position in the input, from 0. Frames that were left out count.
        image: BGR image, uint8, ``(H, W, 3)``.
    """

    name: str
    index: int
    image: np.ndarray


@dataclass(frozen=True)
class FrameResult(InputFrame):
    """A frame with its prediction and the `Outcome` of the pipeline.

    Args:
        labels: Class of each pixel, ``(H, W)``, uint8, at the size of the frame.
        confidence: Probability of that class, ``(H, W)``, float32.
        outcome: Result of the pipeline, without logits.
    """

    labels: np.ndarray
    confidence: np.ndarray
    outcome: Outcome

    @property
    def expert(self) -> int:
        return self.outcome.expert

    @property
    def k(self) -> int:
        return self.outcome.k

    @property
    def opened(self) -> bool:
        return self.outcome.opened

    @property
    def weight(self) -> float:
        return self.outcome.weight

    @property
    def seconds(self) -> float | None:
        return self.outcome.seconds

    def to_json(self) -> dict[str, Any]:
        """Return the entries of the frame in ``stream.jsonl``."""
        names = ("name", "index", "expert", "k", "opened", "weight", "seconds")
        line = {name: getattr(self, name) for name in names}
        return {**line, "mean_confidence": float(self.confidence.mean())}


class FrameSource(ABC):
    """A stream of frames. Unreadable frames are reported, skipped and counted.

    Args:
        every: Take every N-th frame. Defaults to 1.
    """

    name = "frames"
    """Name of the stream for file names."""
    total: int | None = None
    """Number of frames; None if it is unknown."""
    fps = 10.0
    """Frames per second of videos that are written from the stream."""
    is_live = False
    """Whether the stream is live, so that missed frames cannot be read again."""

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ReservoirError(f"every must be 1 (all frames) or more, got {every}")
        self.every = every
        self.broken = 0
        """Number of frames that could not be read."""
        self.dropped = 0
        """Number of frames of a camera that nobody had time for."""
        self.gaps = 0
        """Number of times that a network camera was lost and connected again."""
        self.gap_seconds = 0.0
        """Seconds without a connection, in all gaps."""
        self.stopping = threading.Event()

    def losses(self) -> dict[str, float]:
        """Return the counts of lost frames and time of a live stream so far, for its record."""
        gaps = {"gaps": self.gaps, "gap_seconds": round(self.gap_seconds, 3)} if self.gaps else {}
        return {"dropped": self.dropped, **gaps}

    @abstractmethod
    def __iter__(self) -> Iterator[InputFrame]: ...

    def stop(self) -> None:
        """End the stream. Any thread or signal handler may call this."""
        self.stopping.set()

    def since(self, index: int) -> Iterator[InputFrame]:
        """Yield the frames from a position; a camera continues with its current frame."""
        for frame in self:
            if self.is_live:
                number = frame.index + index
                yield replace(frame, index=number, name=f"{self.name}_{number:06d}")
            elif frame.index >= index:
                yield frame

    def _skip(self, what: str | os.PathLike) -> None:
        self.broken += 1
        _logger.warning("%s cannot be decoded: skipped", what)
