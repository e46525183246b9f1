"""CIFAR-10-C and CIFAR-100-C (Hendrycks and Dietterich, ICLR 2019), as published.

A folder with one ``CORRUPTION.npy`` of 50,000 images each, 10,000 for each severity from 1 to 5 in
turn, and ``labels.npy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from ...errors import ReservoirError
from ...known_datasets import CIFAR_C_IMAGES, CORRUPTIONS, EXTRA_CORRUPTIONS
from .arrays import ArrayImages
from .base import DomainSet


class CifarC(DomainSet):
    """CIFAR-10-C or CIFAR-100-C.

    Args:
        root: The folder with the ``.npy`` files.
        classes: 10 or 100.
        corruptions: Domains, in order; by default the fifteen of the benchmark.
        severity: 1 to 5.
        limit: Use only the first so many images of each severity, for a quick look.
    """

    def __init__(
        self,
        root: str | Path,
        classes: int = 10,
        corruptions: Sequence[str] | None = None,
        severity: int = 5,
        limit: int | None = None,
    ) -> None:
        if classes not in (10, 100):
            raise ReservoirError(f"classes must be 10 or 100, got {classes}")
        self.root = Path(root)
        self.classes = classes
        self.title = f"CIFAR-{classes}-C"
        names = CORRUPTIONS if corruptions is None else corruptions
        super().__init__(names, CORRUPTIONS + EXTRA_CORRUPTIONS, severity)
        self.limit = _check_limit(limit)
        self.labels = self._labels()
        for name in self.names:  # now, not at the tenth domain of a long run
            self._array(name)

    def _open(self, name: str, severity: int | None) -> ArrayImages:
        start = (severity - 1) * CIFAR_C_IMAGES
        part = slice(start, start + min(self.limit, CIFAR_C_IMAGES))
        return ArrayImages(self._array(name)[part], self.labels[part])

    def _labels(self) -> np.ndarray:
        labels = self._load(self.root / "labels.npy")
        wanted = (5 * CIFAR_C_IMAGES,)
        if labels.shape != wanted:
            raise ReservoirError(
                f"{self.root / 'labels.npy'} has shape {labels.shape}, not {wanted}: {self._mend()}"
            )
        found = np.unique(labels)
        if not np.array_equal(found, np.arange(self.classes)):
            raise ReservoirError(
                f"{self.root} is not {self.title}: its labels go from {found[0]} to {found[-1]}, "
                f"{len(found)} classes; choose the other data set, or another folder"
            )
        return labels

    def _array(self, name: str) -> np.ndarray:
        path = self.root / f"{name}.npy"
        pixels = self._load(path)
        wanted = (5 * CIFAR_C_IMAGES, 32, 32, 3)
        if pixels.shape != wanted or pixels.dtype != np.uint8:
            raise ReservoirError(
                f"{path} holds {pixels.dtype} {pixels.shape}, not uint8 {wanted}: {self._mend()}"
            )
        return pixels

    def _load(self, path: Path) -> np.ndarray:
        if not path.is_file():
            there = sorted(p.stem for p in self.root.glob("*.npy")) if self.root.is_dir() else []
            raise ReservoirError(
                f"there is no {path}; {self.root} has {', '.join(there) or 'no .npy files'}: "
                f"{self._mend()}"
            )
        try:
            # What np.load calls for a map; np.load itself takes any other file for a pickle.
            return open_memmap(path, "r")
        except (ValueError, OSError) as error:
            raise ReservoirError(f"{path} is damaged ({error}): {self._mend()}") from error

    def _mend(self) -> str:
        return f"see tools/check_dataset.py cifar{self.classes}c {self.root}"


def _check_limit(limit: int | None) -> int:
    if limit is not None and limit < 1:
        raise ReservoirError(f"limit must be 1 or more, got {limit}")
    return CIFAR_C_IMAGES if limit is None else limit
