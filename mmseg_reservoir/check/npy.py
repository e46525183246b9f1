"""What is in a ``.npy`` file, and is it whole? Nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from .layout import Array

Content = tuple[str | None, tuple[tuple[int, ...], str] | None, tuple[int, ...] | None]


def npy_content(path: Path) -> Content:
    """What is wrong with a file, else its shape and type, and the values of a list of integers."""
    try:
        # What np.load calls for a map; np.load itself takes any other file for a pickle.
        array = open_memmap(path, "r")
    except ValueError as error:
        return f"is truncated or no plain .npy file ({error})", None, None
    if path.stat().st_size > array.offset + array.nbytes:
        return "is longer than its header says", None, None
    values = None
    if array.ndim == 1 and np.issubdtype(array.dtype, np.integer):
        values = tuple(np.unique(array).tolist())
    return None, (array.shape, str(array.dtype)), values


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
