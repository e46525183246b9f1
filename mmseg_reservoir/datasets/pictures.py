"""Images that are one file each: found in folders or named by lists, decoded, resized, cropped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from PIL import Image

from ..errors import ReservoirError
from ..io.files import display_path
from .base import LabelledImages

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".jpg", ".jpeg", ".png")
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Preprocess:
    """From a picture to the size that a network wants: resize, then cut out the centre.

    Attributes:
        resize: Length of the shorter side, ``(height, width)`` for both sides whatever the shape,
            or None for the image as it is.
        crop: Side of the square that is cut out; None for all.
        filter: ``bilinear`` or ``bicubic``.
    """

    resize: int | tuple[int, int] | None = None
    crop: int | None = None
    filter: str = "bilinear"

    def __post_init__(self) -> None:
        if self.filter not in FILTERS:
            raise ReservoirError(f"filter must be {' or '.join(FILTERS)}, got {self.filter!r}")

    def __call__(self, file: str | Path | BinaryIO, name: str | None = None) -> Tensor:
        """Decode one picture, which messages call ``name``: ``(3, H, W)``, floats in [0, 1]."""
        import torch

        try:
            with Image.open(file) as image:
                image = self._sized(image.convert("RGB"))
        # Pillow's decoders raise OSError, SyntaxError, ValueError, zlib.error, struct.error, ...
        except Exception as error:
            raise ReservoirError(
                f"{name or file} cannot be decoded ({error}): run tools/check_dataset.py on the "
                "data set to find all such files"
            ) from error
        pixels = np.array(self._cropped(image, str(name or file)))
        return torch.from_numpy(pixels).permute(2, 0, 1).float().div_(255)

    def _sized(self, image: Image.Image) -> Image.Image:
        if self.resize is None:
            return image
        if isinstance(self.resize, int):
            short = min(image.size)
            size = tuple(max(1, int(self.resize * side / short)) for side in image.size)
        else:
            size = (self.resize[1], self.resize[0])
        return image.resize(size, FILTERS[self.filter])

    def _cropped(self, image: Image.Image, name: str) -> Image.Image:
        if self.crop is None or image.size == (self.crop, self.crop):
            return image
        width, height = image.size
        if min(width, height) < self.crop:
            raise ReservoirError(
                f"{name} is {height} x {width}, too small to cut {self.crop} x {self.crop} out of "
                f"it: set resize={self.crop} or more"
            )
        left, top = round((width - self.crop) / 2), round((height - self.crop) / 2)
        return image.crop((left, top, left + self.crop, top + self.crop))


class FileImages(LabelledImages):
    """Decodes files when a batch asks for them; their names are relative to the root."""

    def __init__(
        self, root: Path, names: Sequence[str], labels: Sequence[int], preprocess: Preprocess
    ) -> None:
        if not names:
            raise ReservoirError(
                f"there are no images in {display_path(root)}: run tools/check_dataset.py on it"
            )
        self.root = Path(root)
        self.names = list(names)
        self.labels = np.asarray(labels, np.int64)
        self.preprocess = preprocess

    def read(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        import torch

        images = [self.preprocess(self.root / self.names[index]) for index in indices]
        shapes = {tuple(image.shape[1:]) for image in images}
        if len(shapes) > 1:
            raise ReservoirError(
                f"the images of a batch from {self.root} differ in size ({sorted(shapes)[:3]}): "
                "set resize and crop"
            )
        return torch.stack(images)

    def manifest(self) -> str:
        """Of their names and sizes, too; a file that is missing is told when it is read."""
        digest = hashlib.sha256(super().manifest().encode())
        for name in self.names:
            path = self.root / name
            digest.update(f"{name}\t{path.stat().st_size if path.is_file() else None}\n".encode())
        return digest.hexdigest()


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
    names, labels = list_classes(root, list_folders(root))
    return FileImages(root, names, labels, Preprocess(resize, crop, filter))


def list_folders(folder: Path) -> list[str]:
    """The folders directly in a folder, sorted; hidden ones are left out."""
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def list_classes(folder: Path, classes: Sequence[str]) -> tuple[list[str], list[int]]:
    """Names ``CLASS/IMAGE`` and labels, the places of the classes, of all images in a folder."""
    names, labels = [], []
    for label, name in enumerate(classes):
        for image in sorted(os.listdir(folder / name)):
            if image.lower().endswith(SUFFIXES) and not image.startswith("."):
                names.append(f"{name}/{image}")
                labels.append(label)
    return names, labels


def read_list(path: Path, mend: str = "check the path") -> list[list[str]]:
    """The lines of a list of images, split into words; empty ones are left out."""
    if not path.is_file():
        raise ReservoirError(f"there is no image list {path}: {mend}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip()]
