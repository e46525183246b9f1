"""Read frames of videos, cameras and network streams with OpenCV."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cv2
import numpy as np

from ..errors import ReservoirError
from .frame_source import FrameSource, InputFrame

_logger = logging.getLogger(__name__)

_ADDRESS = re.compile(r"(rtsps?|rtmps?|https?|udp|tcp|rtp|srt|mms)://", re.IGNORECASE)
_TIMEOUTS = (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, 10_000, cv2.CAP_PROP_READ_TIMEOUT_MSEC, 10_000)


class VideoFile(FrameSource):
    """The frames of a video file or its network address, with the names ``{video}_{number}``."""

    def __init__(self, path: Path | str, every: int = 1) -> None:
        super().__init__(every)
        self.path = path if isinstance(path, Path) else shown_address(path)
        self.name = path.stem if isinstance(path, Path) else address_name(path)
        self._location = str(path)
        capture = self._open()
        self._count = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))  # some files have -1 or 0
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
        capture = cv2.VideoCapture(self._location)
        if not capture.isOpened():
            raise ReservoirError(
                f"{self.path} is neither an image nor a video that OpenCV can decode: convert it, "
                "for example to H.264 in .mp4, or give a folder of images"
            )
        return capture


class CameraFrames(FrameSource):
    """The frames of a camera. Each read takes the newest frame; older frames are dropped."""

    is_live = True

    def __init__(self, device: int, every: int = 1) -> None:
        super().__init__(every)
        self.device, self.name = device, f"camera{device}"
        self._closing = threading.Event()

    def __iter__(self) -> Iterator[InputFrame]:
        self._closing.clear()
        newest = _Newest(self._open())
        index = 0
        try:
            while (image := newest.take(self.stopping)) is not None:
                self.dropped = newest.dropped
                if index % self.every == 0:
                    yield InputFrame(f"{self.name}_{index:06d}", index, image)
                index += 1
        finally:
            self._closing.set()
            newest.stop()

    def _open(self) -> Any:
        capture = cv2.VideoCapture(self.device)
        if not capture.isOpened():
            raise ReservoirError(
                f"there is no camera {self.device}: give another number, or the path of a video"
            )
        return capture


class NetworkCamera(CameraFrames):
    """The newest frames of a network stream. A lost connection is opened again.

    ``gaps`` counts interruptions, ``gap_seconds`` their total time.

    Args:
        address: Address of the stream. Its password is not shown in messages or names.
        first_wait: Seconds before the first attempt to connect again, doubled after each attempt.
            Defaults to 1.
        longest_wait: Maximum of this time in seconds. Defaults to 30.
        patience: Seconds without a frame after which the stream ends. Defaults to 600.
    """

    def __init__(
        self,
        address: str,
        every: int = 1,
        first_wait: float = 1.0,
        longest_wait: float = 30.0,
        patience: float = 600.0,
    ) -> None:
        FrameSource.__init__(self, every)
        self.address, self.name = address, address_name(address)
        self.first_wait, self.longest_wait, self.patience = first_wait, longest_wait, patience
        self._closing = threading.Event()
        self._capture: cv2.VideoCapture | None = None

    # The interface of cv2.VideoCapture, for `_Newest` and its thread.

    def read(self) -> tuple[bool, np.ndarray | None]:
        """Read a frame, and connect again if the connection is lost."""
        is_there, image = self._read_once()
        if is_there or self._closing.is_set():
            return is_there, image
        lost, wait = time.monotonic(), self.first_wait
        shown = shown_address(self.address)
        _logger.warning("%s is lost: connecting again", shown)
        while time.monotonic() - lost < self.patience and not self._closing.wait(wait):
            wait = min(2 * wait, self.longest_wait)
            self._connect()
            is_there, image = self._read_once()
            if is_there:
                seconds = time.monotonic() - lost
                self.gaps, self.gap_seconds = self.gaps + 1, self.gap_seconds + seconds
                _logger.warning("%s is back after %.1f s", shown, seconds)
                return True, image
        if not self._closing.is_set():
            _logger.error("%s gave no frame for %.0f s: the stream ends", shown, self.patience)
        return False, None

    def release(self) -> None:
        if self._capture is not None:
            self._capture.release()
            self._capture = None

    def _open(self) -> NetworkCamera:
        if not self._connect():
            raise ReservoirError(_not_opened(self.address))
        return self

    def _connect(self) -> bool:
        self.release()
        capture = _open_capture(self.address)
        if capture.isOpened():
            self._capture = capture
        return self._capture is not None

    def _read_once(self) -> tuple[bool, np.ndarray | None]:
        return (False, None) if self._capture is None else self._capture.read()


class _Newest:
    """A reader of a capture in a separate thread, which keeps only the newest frame."""

    def __init__(self, capture: Any) -> None:
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
        """Wait for a new frame, and return it; None if the camera has ended or must stop."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._image is not None or self._ended, 0.2):
                if stopping.is_set():
                    return None
            image, self._image = self._image, None
            return image

    def stop(self) -> None:
        self._ended = True
        self._thread.join()
        self._capture.release()


def is_address(source: Any) -> bool:
    """Return whether an input is a network address."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def open_address(address: str, every: int = 1) -> FrameSource:
    """Return the stream of a network address: a video file or a live camera."""
    capture = _open_capture(address)
    if not capture.isOpened():
        raise ReservoirError(_not_opened(address))
    frames = capture.get(cv2.CAP_PROP_FRAME_COUNT)
    capture.release()
    return VideoFile(address, every) if frames > 0 else NetworkCamera(address, every)


def shown_address(address: str) -> str:
    """Return an address without user, password and query, for messages."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def address_name(address: str) -> str:
    """Return a name for a stream, from its host and path."""
    return re.sub(r"[^\w.-]+", "_", shown_address(address).partition("://")[2]).strip("_.")


def _open_capture(address: str) -> cv2.VideoCapture:
    return cv2.VideoCapture(address, cv2.CAP_FFMPEG, _TIMEOUTS)


def _not_opened(address: str) -> str:
    return (
        f"{shown_address(address)} cannot be opened as a video stream: check that a player can "
        "show it, and the user and password in its address (rtsp://USER:PASSWORD@HOST/PATH)"
    )
