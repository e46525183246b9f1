"""A drive through MiniCity: clear air, fog, night, and fog again, as a video."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from ..errors import ReservoirError
from ..io.files import atomic_write
from .frame import render_frame

DRIVE = ("clear", "fog", "night", "fog")
_FPS = 5


def render_drive(
    frames: int = 14, parts: Sequence[str] = DRIVE, seed: int = 0
) -> Iterator[np.ndarray]:
    """Yield images (BGR) of one condition after the other, each image once.

    Args:
        frames: Number of images of each part.
        parts: Conditions in order.
        seed: Seed of all scenes.
    """
    for number, condition in enumerate(parts):
        before = parts[:number].count(condition) * frames
        for index in range(before, before + frames):
            yield np.ascontiguousarray(render_frame(condition, "val", index, seed).rgb[..., ::-1])


def write_drive(
    path: str | Path, frames: int = 14, parts: Sequence[str] = DRIVE, seed: int = 0
) -> Path:
    """Write a drive as a lossless video (.avi), completely or not at all; keep an existing one."""
    path = Path(path)
    return path if path.is_file() else atomic_write(path, lambda p: _write(p, frames, parts, seed))


def _write(path: Path, frames: int, parts: Sequence[str], seed: int) -> None:
    # OpenCV chooses the format by the suffix, which an incomplete file does not have.
    temporary = path.with_name(f"{path.name}.avi")
    writer = None
    try:
        for image in render_drive(frames, parts, seed):
            if writer is None:
                size = (image.shape[1], image.shape[0])
                codec = cv2.VideoWriter.fourcc(*"FFV1")  # lossy codecs change the style
                writer = cv2.VideoWriter(str(temporary), codec, _FPS, size)
                if not writer.isOpened():
                    raise ReservoirError(
                        f"this OpenCV cannot write {temporary} with the codec FFV1"
                    )
            writer.write(image)
        if writer is None:
            raise ReservoirError(f"a drive needs frames and parts, got {frames} and {parts}")
        writer.release()
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
