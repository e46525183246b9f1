"""Clean images, for the source of a reservoir and for the error before any shift."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from ...errors import ReservoirError
from .arrays import ArrayImages
from .base import LabelledImages
from .files import FileImages, list_folders, list_images
from .preprocess import Preprocess

PIXELS = 3 * 32 * 32


def cifar(root: str | Path, classes: int = 10, train: bool = True) -> ArrayImages:
    """CIFAR-10 or CIFAR-100 in the "binary version", which needs no pickle to be read.

    Args:
        root: The folder with ``data_batch_1.bin``, ... (or ``train.bin``) that the archive
            ``cifar-10-binary.tar.gz`` (``cifar-100-binary.tar.gz``) unpacks to.
        classes: 10 or 100.
        train: Training images, or those of the test.
    """
    if classes not in (10, 100):
        raise ReservoirError(f"classes must be 10 or 100, got {classes}")
    if classes == 100:
        names = ["train.bin" if train else "test.bin"]
    else:
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    # A record is the label, in CIFAR-100 the coarse one and then the fine one, and the planes.
    head = 1 if classes == 10 else 2
    parts = [_records(Path(root) / name, head + PIXELS, classes) for name in names]
    records = np.concatenate(parts)
    pixels = records[:, head:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return ArrayImages(np.ascontiguousarray(pixels), records[:, head - 1])


def image_folder(
    root: str | Path,
    resize: int | tuple[int, int] | None = 256,
    crop: int | None = 224,
    filter: str = "bilinear",
) -> FileImages:
    """``CLASS/*.JPEG``, such as the training or validation images of ImageNet.

    Labels are the places of the folders in the order of their names.
    """
    root = Path(root)
    folders = list_folders(root)
    names = [(label, f"{c}/{n}") for label, c in enumerate(folders) for n in list_images(root / c)]
    paths, labels = [name for _, name in names], [label for label, _ in names]
    return FileImages(root, paths, labels, Preprocess(resize, crop, filter))


class SourceBatches:
    """Batches of some source images; every pass over them has the same images in another order.

    Args:
        images: The images.
        batch_size: As in the stream; what is left over is left out.
        count: How many images to draw, 2000 in the paper; all if there are fewer.
        seed: Of the draw and the orders.
    """

    def __init__(
        self, images: LabelledImages, batch_size: int = 200, count: int = 2000, seed: int = 0
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self.chosen = self._rng.permutation(len(images))[:count]
        if not 1 <= batch_size <= len(self.chosen):
            raise ReservoirError(
                f"batch_size must be 1 to {len(self.chosen)}, the number of source images, got "
                f"{batch_size}"
            )
        self.images = images
        self.batch_size = batch_size

    def __len__(self) -> int:
        return len(self.chosen) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = self._rng.permutation(self.chosen)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.images.batch(order[start : start + self.batch_size])


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
