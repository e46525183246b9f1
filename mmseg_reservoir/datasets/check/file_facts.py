"""Looks at one file: size, checksum, whether it decodes, what is in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from PIL import Image, UnidentifiedImageError

from ...io.files import file_digest
from ..shards import tar_fault


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


def glance(path: Path, checksum: bool = False) -> Facts:
    """The size; the checksum only if it is asked for, and of files that hold something."""
    try:
        size = path.stat().st_size
        return Facts(size, sha256=file_digest(path) if checksum and size else None)
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")


def examine(path: Path, is_label: bool) -> Facts:
    """All of it; reads the whole file."""
    facts = glance(path, checksum=True)
    if not facts.size:
        return facts
    if path.suffix == ".tar":
        return replace(facts, fault=tar_fault(path))
    if path.suffix == ".npy":
        return _examine_array(path, facts)
    return _examine_picture(path, is_label, facts)


def _examine_picture(path: Path, is_label: bool, facts: Facts) -> Facts:
    """Pillow reads labels as mmseg does: palettes stay indices."""
    # A JPEG of that name would have blurred labels.
    formats = ["PNG"] if path.suffix.lower() == ".png" else None
    try:
        with Image.open(path, formats=formats) as image:
            image.verify()  # a PNG's checksums and end, which decoders can do without
        with Image.open(path, formats=formats) as image:
            pixels = np.asarray(image)
    except UnidentifiedImageError:
        return replace(facts, fault=f"is no {path.suffix} file")
    # Pillow's decoders raise OSError, SyntaxError, ValueError, zlib.error, struct.error, ...
    except Exception as error:
        return replace(facts, fault=f"is truncated or damaged ({error})")
    values = tuple(np.unique(pixels).tolist()) if is_label and pixels.ndim == 2 else None
    return replace(facts, shape=pixels.shape[:2], values=values)


def _examine_array(path: Path, facts: Facts) -> Facts:
    """Nothing is unpickled."""
    try:
        # What np.load calls for a map; np.load itself takes any other file for a pickle.
        array = open_memmap(path, "r")
    except ValueError as error:
        return replace(facts, fault=f"is truncated or no plain .npy file ({error})")
    if path.stat().st_size > array.offset + array.nbytes:
        return replace(facts, fault="is longer than its header says")
    is_list = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    values = tuple(np.unique(array).tolist()) if is_list else None
    return replace(facts, array=(array.shape, str(array.dtype)), values=values)
