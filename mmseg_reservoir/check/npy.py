"""What is in a ``.npy`` file, and is it whole? Nothing is unpickled."""

from __future__ import annotations

import io
import math

import numpy as np

from .layout import Array

Content = tuple[str | None, tuple[tuple[int, ...], str] | None, tuple[int, ...] | None]


def npy_content(data: bytes) -> Content:
    """What is wrong with a file, else its shape and type, and the values of a list of integers."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(file)
    except (ValueError, KeyError) as error:
        return f"is no .npy file ({error})", None, None
    if dtype.hasobject:
        return "holds Python objects, which could run code", None, None
    count = math.prod(shape)
    missing = file.tell() + count * dtype.itemsize - len(data)
    if missing:
        return ("is truncated" if missing > 0 else "is longer than its header says"), None, None
    values = None
    if len(shape) == 1 and np.issubdtype(dtype, np.integer):
        found = np.frombuffer(data, dtype, count, file.tell())
        values = tuple(int(value) for value in np.unique(found))
    return None, (tuple(shape), str(dtype)), values


def array_fault(
    found: tuple[tuple[int, ...], str], values: tuple[int, ...] | None, wanted: Array
) -> str | None:
    """How an array differs from what was published; None if it does not."""
    shape, dtype = found
    right_type = np.issubdtype(dtype, np.integer) if wanted.dtype is None else dtype == wanted.dtype
    if shape != wanted.shape or not right_type:
        return f"{dtype} {shape}, not {wanted.dtype or 'integers'} {wanted.shape}"
    if wanted.classes is not None and values != tuple(range(wanted.classes)):
        return f"{len(values)} classes from {values[0]} to {values[-1]}, not {wanted.classes}"
    return None
