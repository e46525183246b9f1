"""Looks at one file: size, checksum, whether it decodes, what is in it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .npy import npy_content
from .png import png_fault
from .tar import tar_digest, tar_fault


@dataclass(frozen=True)
class Facts:
    """What is known of a file.

    Attributes:
        size: Bytes; None if the file cannot be opened.
        fault: Why it cannot be used; None if it can, or if nobody looked.
        sha256: Checksum of its content.
        shape: Rows and columns.
        values: The values of a label's pixels; None for images, and for labels in colour. Also
            those of an array of whole numbers in one dimension.
        array: Shape and type of an array.
    """

    size: int | None
    fault: str | None = None
    sha256: str | None = None
    shape: tuple[int, int] | None = None
    values: tuple[int, ...] | None = None
    array: tuple[tuple[int, ...], str] | None = None


def glance(path: Path) -> Facts:
    """The size alone."""
    try:
        return Facts(path.stat().st_size)
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")


def examine(path: Path, is_label: bool) -> Facts:
    """Everything; reads the file once. Pillow reads labels as mmseg does: palettes stay indices."""
    if path.suffix == ".tar":
        return _examine_tar(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")
    if not data:
        return Facts(0)
    sha256 = hashlib.sha256(data).hexdigest()
    if path.suffix == ".npy":
        fault, array, values = npy_content(data)
        return Facts(len(data), fault, sha256, values=values, array=array)
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


def _examine_tar(path: Path) -> Facts:
    """An archive is too large to be held in memory, and its pictures are too many to decode."""
    facts = glance(path)
    if not facts.size:
        return facts
    try:
        return Facts(facts.size, tar_fault(path), tar_digest(path))
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")
