"""Open frames from files, cameras, network streams, or images in memory."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image

from ..errors import ReservoirError
from ..seg.label_images import label_stem
from ..seg.source_images import IMAGE_SUFFIXES
from .frame_source import FrameSource, InputFrame
from .video_frames import CameraFrames, VideoFile, is_address, open_address

_JPEG_END, _JPEG_TAIL = b"\xff\xd9", 4096  # some cameras append a few bytes
_KINDS = (
    "an image, a folder of images, a glob, a video file, the number of a camera, the address of a "
    "stream, an array, a PIL image, a tensor, or an iterable of them"
)


class Pictures(FrameSource):
    """A stream of image files or images in memory.

    Files of a list are named by their paths below ``root``, with suffixes only if two names would
    be equal. Files of other iterables and images in memory are numbered.

    Args:
        items: Paths, BGR arrays ``(H, W, 3)`` of uint8, PIL images, or RGB tensors ``(3, H, W)``
            (uint8, or floating point from 0 to 1).
        root: Folder to which names of files are relative. Defaults to their deepest common folder.
        name: Name of the stream.
    """

    def __init__(
        self,
        items: Iterable[Any],
        every: int = 1,
        root: Path | None = None,
        name: str = "frames",
    ) -> None:
        super().__init__(every)
        self.items, self.name = items, name
        self._names: list[str] | None = None
        if isinstance(items, Sequence):
            self._names = _names_of(items, root, name)
            self.total = len(range(0, len(items), every))

    def __iter__(self) -> Iterator[InputFrame]:
        for index, item in islice(enumerate(self.items), 0, None, self.every):
            path = Path(item).expanduser() if isinstance(item, (str, os.PathLike)) else None
            image = _as_bgr(item) if path is None else _decode(path)
            if image is None:
                self._skip(str(path))
                continue
            stem = self.name if path is None else path.stem
            name = f"{stem}_{index:06d}" if self._names is None else self._names[index]
            yield InputFrame(name, index, image)


class SeveralInputs(FrameSource):
    """A stream of several inputs in turn. Names of frames start with the name of their input."""

    def __init__(self, sources: Sequence[FrameSource]) -> None:
        super().__init__(sources[0].every)
        self.sources = sources
        self.fps = sources[0].fps
        totals = [source.total for source in sources]
        self.total = None if None in totals else sum(filter(None, totals))

    def __iter__(self) -> Iterator[InputFrame]:
        start, index, used = 0, -1, set[str]()
        for source in self.sources:
            folder = _unused(source.name, used)
            for frame in source:
                index = start + frame.index
                self._count()
                yield InputFrame(f"{folder}/{frame.name}", index, frame.image)
            start = index + 1
            self._count()

    def _count(self) -> None:
        self.broken = sum(source.broken for source in self.sources)


def open_frames(source: Any, every: int = 1) -> FrameSource:
    """Return the stream of any supported input.

    Args:
        source: An image, a folder (searched recursively), a glob, a video file, the number of a
            camera, or the address of a network stream (``rtsp://``, ``http://``, ...). A BGR
            array, a PIL image, an RGB tensor, or a batch of them. A list of any of these except
            cameras, or an iterable of images. Or a `FrameSource`.
        every: Take every N-th frame. Defaults to 1.
    """
    if isinstance(source, FrameSource):
        return source
    if isinstance(source, (np.ndarray, torch.Tensor, Image.Image)):
        if not isinstance(source, Image.Image) and source.ndim == 4:
            return Pictures(list(source), every)
        return Pictures([source], every)
    if isinstance(source, int) or str(source).isdecimal():
        return CameraFrames(int(source), every)
    if is_address(source):
        return open_address(str(source), every)
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source).expanduser(), every)
    if isinstance(source, Sequence):
        return _open_list(source, every)
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        return Pictures(source, every)
    raise ReservoirError(f"frames cannot be read from a {type(source).__name__}: give {_KINDS}")


def natural_order(paths: Iterable[Path]) -> list[Path]:
    """Return paths sorted by the numbers in their names, so that 2 comes before 10."""
    parts = {path: re.split(r"(\d+)", path.as_posix()) for path in paths}
    return sorted(
        parts, key=lambda p: [(int(x), "") if x.isdecimal() else (-1, x) for x in parts[p]]
    )


def is_image(path: str | os.PathLike) -> bool:
    """Return whether a file is an image, by its suffix."""
    return Path(path).suffix.lower() in IMAGE_SUFFIXES


def _open_path(path: Path, every: int) -> FrameSource:
    if path.is_dir():
        images = _images(path.rglob("*"), f"the folder {path}")
        return Pictures(images, every, path, path.resolve().name)
    if path.is_file():
        return Pictures([path], every, name=path.stem) if is_image(path) else VideoFile(path, every)
    if glob.has_magic(str(path)):
        files = map(Path, glob.glob(str(path), recursive=True))
        return Pictures(_images(files, str(path)), every)
    raise ReservoirError(f"there is no {path}: name {_KINDS}")


def _open_list(items: Sequence[Any], every: int) -> FrameSource:
    paths = [item for item in items if isinstance(item, (str, os.PathLike, int))]
    if all(not isinstance(path, int) and is_image(path) for path in paths):
        return Pictures(items, every)
    sources = [open_frames(item, every) for item in items]
    live = [source.name for source in sources if source.is_live]
    if live:
        raise ReservoirError(
            f"{live[0]} never ends: give it alone, or start one process per camera"
        )
    return SeveralInputs(sources)


def _images(files: Iterable[Path], where: str) -> list[Path]:
    images = [path for path in files if is_image(path)]
    if not images:
        raise ReservoirError(f"no image in {where} (looked for {', '.join(IMAGE_SUFFIXES)})")
    return natural_order(images)


def _names_of(items: Sequence[Any], root: Path | None, name: str) -> list[str]:
    """Return a unique name for every item, because it is the name of its label file."""
    paths = [
        os.path.abspath(Path(item).expanduser()) if isinstance(item, (str, os.PathLike)) else None
        for item in items
    ]
    parents = [os.path.dirname(path) for path in paths if path is not None]
    base = os.path.abspath(root) if root else os.path.commonpath(parents) if parents else ""
    files = [
        f"{name}_{index:06d}" if path is None else Path(path).relative_to(base).as_posix()
        for index, path in enumerate(paths)
    ]
    stems = [
        file if path is None else os.path.splitext(file)[0]
        for file, path in zip(files, paths, strict=True)
    ]
    count = Counter(map(label_stem, stems))
    used = {stem for stem in stems if count[label_stem(stem)] == 1}
    return [
        stem if count[label_stem(stem)] == 1 else _unused(file, used)
        for stem, file in zip(stems, files, strict=True)
    ]


def _unused(name: str, used: set[str]) -> str:
    """Return a variant of a name that is not used, and add it to the used names."""
    number, free = 2, name
    while free in used:
        number, free = number + 1, f"{name}_{number}"
    used.add(free)
    return free


def _decode(path: Path) -> np.ndarray | None:
    """Return an image as OpenCV and mmseg decode it; None if the file is incomplete."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if path.suffix.lower() in (".jpg", ".jpeg") and _JPEG_END not in data[-_JPEG_TAIL:]:
        return None  # otherwise OpenCV fills the missing part with gray
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error:  # the header has more pixels than OpenCV accepts
        return None


def _as_bgr(image: Any) -> np.ndarray:
    if isinstance(image, Image.Image):
        return np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1])
    if isinstance(image, torch.Tensor):
        return _tensor_as_bgr(image.detach())
    if not isinstance(image, np.ndarray):
        raise ReservoirError(f"a frame cannot be a {type(image).__name__}: give {_KINDS}")
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ReservoirError(
            f"a frame must be a BGR array (H, W, 3) of uint8, got {image.shape} of {image.dtype}"
        )
    return image


def _tensor_as_bgr(image: torch.Tensor) -> np.ndarray:
    fraction = image.is_floating_point()
    if image.ndim != 3 or len(image) != 3 or not (fraction or image.dtype == torch.uint8):
        raise ReservoirError(
            "a frame must be an RGB tensor (3, H, W) of uint8 or floating point, got "
            f"{tuple(image.shape)} of {image.dtype}"
        )
    if fraction:
        if not ((image >= 0) & (image <= 1)).all():
            raise ReservoirError(
                "a frame of floating point must lie in [0, 1], got "
                f"{image.min().item():.4g} to {image.max().item():.4g}: undo its normalization"
            )
        image = (image.float() * 255).round().to(torch.uint8)
    return np.ascontiguousarray(image.permute(1, 2, 0).cpu().numpy()[..., ::-1])
