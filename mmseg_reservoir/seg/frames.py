"""Where frames come from: images, folders, globs, video files, cameras, arrays."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..errors import ReservoirError
from .frame_source import FrameSource, InputFrame
from .video_frames import CameraFrames, VideoFile

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
_JPEG_END, _JPEG_TAIL = b"\xff\xd9", 4096  # some cameras append a few bytes of their own


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
        return CameraFrames(int(source), every)
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
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error:  # its header promises more pixels than OpenCV takes
        return None


def _checked(image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ReservoirError(
            f"a frame must be a BGR array (H, W, 3) of uint8, got {image.shape} of {image.dtype}"
        )
    return image
