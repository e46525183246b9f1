"""Images that are one file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import ReservoirError
from .base import LabelledImages
from .preprocess import Preprocess

SUFFIXES = (".jpg", ".jpeg", ".png")


class FileImages(LabelledImages):
    """Decodes files when a batch asks for them.

    Args:
        root: The folder that the names are relative to.
        names: The files.
        labels: The class of each.
        preprocess: How to decode.
    """

    def __init__(
        self, root: Path, names: Sequence[str], labels: Sequence[int], preprocess: Preprocess
    ) -> None:
        if not names:
            raise ReservoirError(f"there are no images in {root}: run tools/check_dataset.py on it")
        self.root = Path(root)
        self.names = list(names)
        self.labels = np.asarray(labels, np.int64)
        self.preprocess = preprocess

    def read(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        images = [self.preprocess(self.root / self.names[index]) for index in indices]
        shapes = {tuple(image.shape[1:]) for image in images}
        if len(shapes) > 1:
            raise ReservoirError(
                f"the images of a batch from {self.root} differ in size ({sorted(shapes)[:3]}): "
                "set resize and crop"
            )
        return torch.stack(images)


def list_images(folder: Path) -> list[str]:
    """The images directly in a folder, sorted by name."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )


def list_folders(folder: Path) -> list[str]:
    """The folders directly in a folder, sorted; hidden ones are left out."""
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def read_list(path: Path, what: str) -> list[list[str]]:
    """The lines of a text file, split into words; empty ones are left out."""
    if not path.is_file():
        raise ReservoirError(f"there is no {what} {path}: check the path")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip()]
