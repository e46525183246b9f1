"""Where frames come from: images, folders, globs, video files, cameras, arrays."""

from __future__ import annotations

import glob
import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..errors import ReservoirError

_logger = logging.getLogger(__name__)

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
_JPEG_END, _JPEG_TAIL = b"\xff\xd9", 4096  # some cameras append a few bytes of their own


@dataclass(frozen=True)
class InputFrame:
    """One frame of a stream.

    Args:
        name: Without a suffix; in folders of folders with ``/``.
        index: Its position in the input, from 0; frames that were left out count.
        image: BGR, uint8, ``(H, W, 3)``.
    """

    name: str
    index: int
    image: np.ndarray


class FrameSource(ABC):
    """Frames in their order. One that cannot be read is reported, skipped and counted.

    Args:
        every: Take each so-many-th frame.
    """

    name = "frames"
    """What the stream is called in the names of files."""
    total: int | None = None
    """How many frames it has; None if that is not known."""
    fps = 10.0
    """Frames per second, for videos that are made of it."""

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ReservoirError(f"every must be 1 (all frames) or more, got {every}")
        self.every = every
        self.broken = 0
        """Frames that could not be read so far."""
        self.dropped = 0
        """Frames that a camera took while nobody had time for them."""

    @abstractmethod
    def __iter__(self) -> Iterator[InputFrame]: ...

    def _skip(self, what: str | os.PathLike) -> None:
        self.broken += 1
        _logger.warning("%s cannot be decoded: skipped", what)


class Pictures(FrameSource):
    """Image files, or arrays, one after the other.

    Args:
        items: Paths, or BGR arrays ``(H, W, 3)`` of uint8.
        every: Take each so-many-th frame.
        root: Names of files are relative to it; None for names without folders.
        name: That of the stream.
    """

    def __init__(
        self,
        items: Sequence[str | os.PathLike | np.ndarray],
        every: int = 1,
        root: Path | None = None,
        name: str = "frames",
    ) -> None:
        super().__init__(every)
        self.items, self.root, self.name = items, root, name
        self.total = len(range(0, len(items), every))

    def __iter__(self) -> Iterator[InputFrame]:
        for index in range(0, len(self.items), self.every):
            item = self.items[index]
            if isinstance(item, np.ndarray):
                yield InputFrame(f"{self.name}_{index:06d}", index, _checked(item))
                continue
            path = Path(item)
            image = _decode(path)
            if image is None:
                self._skip(path)
                continue
            relative = path.relative_to(self.root) if self.root else Path(path.name)
            yield InputFrame(relative.with_suffix("").as_posix(), index, image)


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


class Camera(FrameSource):
    """The newest frame of a camera, again and again; those that came meanwhile are dropped."""

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
            while (image := newest.take()) is not None:
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

    def take(self) -> np.ndarray | None:
        """The newest frame, once; None when the camera has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._image is not None or self._ended)
            image, self._image = self._image, None
            return image

    def stop(self) -> None:
        """Let go of the camera."""
        self._ended = True
        self._thread.join()
        self._capture.release()


def open_frames(source: Any, every: int = 1) -> FrameSource:
    """The frames of whatever a user names.

    Args:
        source: An image, a folder (searched recursively), a glob, a video file, the number of a
            camera, a BGR array, or a list of images or arrays; or a source that is ready made.
        every: Take each so-many-th frame.
    """
    if isinstance(source, FrameSource):
        return source
    if isinstance(source, np.ndarray):
        return Pictures([source], every)
    if isinstance(source, (list, tuple)):
        return Pictures(source, every)
    if isinstance(source, int) or str(source).isdecimal():
        return Camera(int(source), every)
    path = Path(source).expanduser()
    if path.is_dir():
        images = [p for p in path.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES]
        return Pictures(_some(images, f"the folder {path}"), every, path, path.resolve().name)
    if path.is_file():
        is_image = path.suffix.lower() in IMAGE_SUFFIXES
        return Pictures([path], every, name=path.stem) if is_image else VideoFile(path, every)
    if glob.has_magic(str(path)):
        found = [Path(p) for p in glob.glob(str(path), recursive=True)]
        images = _some([p for p in found if p.suffix.lower() in IMAGE_SUFFIXES], str(path))
        return Pictures(images, every, Path(os.path.commonpath([p.parent for p in images])))
    raise ReservoirError(
        f"there is no {path}: name an image, a folder of images, a glob in quotes, a video file, "
        "or the number of a camera"
    )


def _some(images: list[Path], where: str) -> list[Path]:
    """The images in the order of the numbers in their names: 2 comes before 10."""
    if not images:
        raise ReservoirError(f"no image in {where} (looked for {', '.join(IMAGE_SUFFIXES)})")
    parts = {path: re.split(r"(\d+)", path.as_posix()) for path in images}
    return sorted(
        images, key=lambda p: [(int(x), "") if x.isdecimal() else (-1, x) for x in parts[p]]
    )


def _decode(path: Path) -> np.ndarray | None:
    """The image as OpenCV, and so mmseg, reads it; None if it cannot be, not even in part."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if path.suffix.lower() in (".jpg", ".jpeg") and _JPEG_END not in data[-_JPEG_TAIL:]:
        return None  # OpenCV would fill up with grey what is missing
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None


def _checked(image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ReservoirError(
            f"a frame must be a BGR array (H, W, 3) of uint8, got {image.shape} of {image.dtype}"
        )
    return image
