"""Read one file of a data set: its size, checksum, faults and content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from PIL import Image, UnidentifiedImageError

from ...io.files import file_digest
from ..ccc import tar_fault


@dataclass(frozen=True)
class Facts:
    """Facts about a file.

    Attributes:
        size: Number of bytes. None if the file cannot be opened.
        fault: Reason why the file is unusable. None if it is usable or was not read.
        sha256: Checksum of the content.
        shape: Rows and columns of an image or a label.
        values: Distinct values of a label with one channel, or of a list of integers.
        array: Shape and type of a ``.npy`` file.
    """

    size: int | None
    fault: str | None = None
    sha256: str | None = None
    shape: tuple[int, int] | None = None
    values: tuple[int, ...] | None = None
    array: tuple[tuple[int, ...], str] | None = None


def glance(path: Path, checksum: bool = False) -> Facts:
    """Return the size of a file, and with ``checksum`` its checksum, unless it is empty."""
    try:
        size = path.stat().st_size
        return Facts(size, sha256=file_digest(path) if checksum and size else None)
    except OSError as error:
        return Facts(None, fault=f"cannot be opened: {error.strerror}")


def examine(path: Path, is_label: bool) -> Facts:
    """Return all facts about a file, which is read completely."""
    facts = glance(path, checksum=True)
    if not facts.size:
        return facts
    if path.suffix == ".tar":
        return replace(facts, fault=tar_fault(path))
    if path.suffix == ".npy":
        return _examine_array(path, facts)
    return _examine_image(path, is_label, facts)


def _examine_image(path: Path, is_label: bool, facts: Facts) -> Facts:
    # Pillow keeps the indices of palettes, as mmseg does. A JPEG file with the suffix .png is
    # refused, because its labels are blurred.
    formats = ["PNG"] if path.suffix.lower() == ".png" else None
    try:
        with Image.open(path, formats=formats) as image:
            image.verify()  # checks checksums and end of a PNG file, which decoders ignore
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
    try:
        # np.load also uses this function, but would try a pickle for other files.
        array = open_memmap(path, mode="r")
    except ValueError as error:
        return replace(facts, fault=f"is truncated or no plain .npy file ({error})")
    if path.stat().st_size > array.offset + array.nbytes:
        return replace(facts, fault="is longer than its header declares")
    is_list = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    values = tuple(np.unique(array).tolist()) if is_list else None
    return replace(facts, array=(array.shape, str(array.dtype)), values=values)
