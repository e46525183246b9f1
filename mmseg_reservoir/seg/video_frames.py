"""Frames of videos and cameras, through OpenCV."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from ..errors import ReservoirError
from .frame_source import FrameSource, InputFrame

_logger = logging.getLogger(__name__)


class VideoFile(FrameSource):
    """The frames of a video, called ``{video}_{number}``."""

    def __init__(self, path: Path, every: int = 1) -> None:
        super().__init__(every)
        self.path, self.name = path, path.stem
        capture = self._open()
        self._count = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))  # some tell -1 or 0
        self.total = len(range(0, self._count, every)) or None
        self.fps = (capture.get(cv2.CAP_PROP_FPS) or self.fps) / every
        capture.release()

    def __iter__(self) -> Iterator[InputFrame]:
        capture, index = self._open(), 0
        try:
            while capture.grab():
                if index % self.every == 0:
                    is_there, image = capture.retrieve()
                    if is_there:
                        yield InputFrame(f"{self.name}_{index:06d}", index, image)
                    else:
                        self._skip(f"frame {index} of {self.path}")
                index += 1
        finally:
            capture.release()
        if index < self._count:
            _logger.warning(
                "%s ends after %d of its %d frames: the rest cannot be decoded",
                self.path,
                index,
                self._count,
            )
            self.broken += self._count - index

    def _open(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self.path))
        if not capture.isOpened():
            raise ReservoirError(
                f"{self.path} is neither an image nor a video that OpenCV can decode: convert it, "
                "for example to H.264 in .mp4, or give a folder of images"
            )
        return capture


class CameraFrames(FrameSource):
    """The newest frame of a camera, again and again; those that came meanwhile are dropped."""

    is_live = True

    def __init__(self, device: int, every: int = 1) -> None:
        super().__init__(every)
        self.device, self.name = device, f"camera{device}"

    def __iter__(self) -> Iterator[InputFrame]:
        capture = cv2.VideoCapture(self.device)
        if not capture.isOpened():
            raise ReservoirError(
                f"there is no camera {self.device}: give another number, or the path of a video"
            )
        newest = _Newest(capture)
        index = 0
        try:
            while (image := newest.take(self.stopping)) is not None:
                self.dropped = newest.dropped
                if index % self.every == 0:
                    yield InputFrame(f"{self.name}_{index:06d}", index, image)
                index += 1
        finally:
            newest.stop()


class _Newest:
    """Reads a capture in a thread of its own and keeps only the newest frame."""

    def __init__(self, capture: cv2.VideoCapture) -> None:
        self.dropped = 0
        self._capture = capture
        self._image: np.ndarray | None = None
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended:
            is_there, image = self._capture.read()
            with self._changed:
                if not is_there:
                    self._ended = True
                elif not self._ended:
                    self.dropped += self._image is not None
                    self._image = image
                self._changed.notify_all()

    def take(self, stopping: threading.Event) -> np.ndarray | None:
        """Return the newest frame, once; None when the camera has ended, or is to stop."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._image is not None or self._ended, 0.2):
                if stopping.is_set():
                    return None
            image, self._image = self._image, None
            return image

    def stop(self) -> None:
        """Let go of the camera."""
        self._ended = True
        self._thread.join()
        self._capture.release()
