"""CIFAR-10-C and CIFAR-100-C (Hendrycks and Dietterich, ICLR 2019), and CIFAR itself.

CIFAR-C is a folder of ``labels.npy`` and one ``CORRUPTION.npy`` per corruption. Each has 10,000
images of severity 1, then as many of severity 2, up to severity 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.format import open_memmap

from ..errors import ReservoirError
from ..io.files import display_path
from ..option_types import Count
from ..registry import checked
from .base import ArrayImages, DomainSet
from .disk_layout import Array, Cell, Layout
from .imagenet_c import CORRUPTIONS, EXTRA_CORRUPTIONS

IMAGES = 10_000
"""Number of images of one severity."""
PIXELS = 3 * 32 * 32
"""Number of bytes of an image."""


def _layout(classes: int, record: str) -> Layout:
    pixels = Array((5 * IMAGES, 32, 32, 3), "uint8")
    arrays = {"labels": Array((5 * IMAGES,), classes=classes)}
    arrays |= dict.fromkeys(CORRUPTIONS + EXTRA_CORRUPTIONS, pixels)
    cells = [
        Cell(
            "extra" if name in EXTRA_CORRUPTIONS else "test",
            name,
            images=".",
            expected=1,
            needed=name not in EXTRA_CORRUPTIONS,
            files=(f"{name}.npy",),
            array=array,
        )
        for name, array in arrays.items()
    ]
    return Layout(
        title=f"CIFAR-{classes}-C",
        cells=lambda root: cells,
        markers=("labels.npy",),
        image_suffix=".npy",
        download=(
            f"get CIFAR-{classes}-C.tar from zenodo.org/records/{record} and unpack it, so that "
            "{root} holds labels.npy and CORRUPTION.npy"
        ),
    )


LAYOUT_10 = _layout(10, "2535967")
LAYOUT_100 = _layout(100, "3555552")


@checked
class CifarC(DomainSet):
    """CIFAR-10-C or CIFAR-100-C.

    Args:
        root: Folder with the ``.npy`` files.
        classes: Number of classes: 10 or 100.
        corruptions: Domains in the order of the stream. Defaults to the fifteen of the benchmark.
        severity: Severity from 1 to 5.
        limit: Number of images to use of each severity. Defaults to all.
    """

    def __init__(
        self,
        root: str | Path,
        classes: Literal[10, 100] = 10,
        corruptions: Sequence[str] | None = None,
        severity: int = 5,
        limit: Count | None = None,
    ) -> None:
        self.root = Path(root)
        self.classes = classes
        self.title = f"CIFAR-{classes}-C"
        names = CORRUPTIONS if corruptions is None else corruptions
        super().__init__(names, CORRUPTIONS + EXTRA_CORRUPTIONS, severity)
        self.limit = IMAGES if limit is None else limit
        self._remedy = f"see reservoir check cifar{classes}c {self.root}"
        self.labels = self._load("labels")
        self._check_labels()
        for name in self.names:  # report a missing file before the run starts
            self._array(name)

    def _open(self, name: str, severity: int | None) -> ArrayImages:
        assert severity is not None  # CIFAR-C always has one
        start = (severity - 1) * IMAGES
        part = slice(start, start + min(self.limit, IMAGES))
        return ArrayImages(self._array(name)[part], self.labels[part])

    def _check_labels(self) -> None:
        shape, expected = self.labels.shape, (5 * IMAGES,)
        if shape != expected:
            raise ReservoirError(
                f"{self.root / 'labels.npy'} has shape {shape}, not {expected}: {self._remedy}"
            )
        classes = np.unique(self.labels)
        if not np.array_equal(classes, np.arange(self.classes)):
            raise ReservoirError(
                f"{self.root} is not {self.title}: its labels go from {classes[0]} to "
                f"{classes[-1]}, {len(classes)} classes; choose the other data set, or another "
                "folder"
            )

    def _array(self, name: str) -> np.ndarray:
        pixels, expected = self._load(name), (5 * IMAGES, 32, 32, 3)
        if pixels.shape != expected or pixels.dtype != np.uint8:
            raise ReservoirError(
                f"{self.root / name}.npy holds {pixels.dtype} {pixels.shape}, not uint8 "
                f"{expected}: {self._remedy}"
            )
        return pixels

    def _load(self, name: str) -> np.ndarray:
        path = self.root / f"{name}.npy"
        if not path.is_file():
            names = sorted(p.stem for p in self.root.glob("*.npy")) if self.root.is_dir() else []
            raise ReservoirError(
                f"there is no {display_path(path)}; {self.root} has "
                f"{', '.join(names) or 'no .npy files'}: {self._remedy}"
            )
        try:
            # np.load also uses this function, but would try a pickle for other files.
            return open_memmap(path, mode="r")
        except (ValueError, OSError) as error:
            raise ReservoirError(f"{path} is damaged ({error}): {self._remedy}") from error


@checked
def cifar(root: str | Path, classes: Literal[10, 100] = 10, train: bool = True) -> ArrayImages:
    """Return CIFAR-10 or CIFAR-100 from the published "binary version", which has no pickle.

    Args:
        root: Folder with ``data_batch_1.bin``, ... (or ``train.bin``), as unpacked from
            ``cifar-10-binary.tar.gz`` (``cifar-100-binary.tar.gz``).
        classes: Number of classes: 10 or 100.
        train: Whether to return the training images instead of the test images.
    """
    if classes == 100:
        names = ["train.bin" if train else "test.bin"]
    else:
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    # A record has the label (in CIFAR-100 coarse and fine label), then the pixels by channel.
    head = 1 if classes == 10 else 2
    parts = [_records(Path(root) / name, head + PIXELS, classes) for name in names]
    records = np.concatenate(parts)
    pixels = records[:, head:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return ArrayImages(np.ascontiguousarray(pixels), records[:, head - 1])


def _records(path: Path, length: int, classes: int) -> np.ndarray:
    if not path.is_file():
        raise ReservoirError(
            f"there is no {path}: unpack cifar-{classes}-binary.tar.gz, the binary version"
        )
    data = np.fromfile(path, np.uint8)
    if len(data) == 0 or len(data) % length:
        raise ReservoirError(
            f"{path} has {len(data)} bytes, no multiple of {length}: it is not a file of "
            f"CIFAR-{classes}, or is cut off; unpack it again"
        )
    return data.reshape(-1, length)
