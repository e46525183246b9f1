"""Looks at one file: size, checksum, whether it decodes, what is in it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .png import png_fault


@dataclass(frozen=True)
class Facts:
    """What is known of a file.

    Attributes:
        size: Bytes; None if the file cannot be opened.
        fault: Why it cannot be used; None if it can, or if nobody looked.
        sha256: Checksum of its content.
        shape: Rows and columns.
        values: The values of a label's pixels; None for images, and for labels in colour.
    """

    size: int | None
    fault: str | None = None
    sha256: str | None = None
    shape: tuple[int, int] | None = None
    values: tuple[int, ...] | None = None


def glance(path: Path) -> Facts:
    """The size alone."""
    try:
        return Facts(path.stat().st_size)
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")


def examine(path: Path, is_label: bool) -> Facts:
    """Everything; reads the file once. Pillow reads labels as mmseg does: palettes stay indices."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")
    if not data:
        return Facts(0)
    sha256 = hashlib.sha256(data).hexdigest()
    fault = png_fault(data) if path.suffix.lower() == ".png" else None
    if fault is not None:
        return Facts(len(data), fault, sha256)
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            shape = (image.height, image.width)
            pixels = np.asarray(image) if is_label else None
    # Pillow's decoders raise OSError, SyntaxError, ValueError, zlib.error, struct.error, ...
    except Exception as error:
        return Facts(len(data), f"does not decode: {error}", sha256)
    values = None
    if pixels is not None and pixels.ndim == 2:
        values = tuple(int(value) for value in np.unique(pixels))
    return Facts(len(data), None, sha256, shape, values)
