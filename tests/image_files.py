"""Writes small pictures whose colour says which one they are."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_image(path: Path, value: int, size=(8, 8)) -> None:
    """A grey picture of one value; ``size`` is height and width."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*size, 3), value, np.uint8)
    Image.fromarray(pixels).save(path, "PNG" if path.suffix == ".png" else "JPEG", quality=95)


def values(images) -> list[int]:
    """The values of a batch of such pictures, to the nearest ten, which JPEG keeps."""
    return [round(float(image.mean()) * 255 / 10) * 10 for image in images]


def cifar_records(count, head, first=0):
    """Labels, then planes of red, green and blue: red says which image, green the row."""
    rows = np.zeros((count, head + 3072), np.uint8)
    rows[:, head - 1] = np.arange(count) % 10
    rows[:, head : head + 1024] = (first + np.arange(count))[:, None]
    rows[:, head + 1024 : head + 2048] = np.repeat(np.arange(32), 32)
    return rows
