"""Read image files from folders or lists: decode, resize and crop them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
from PIL import Image

from ..errors import ReservoirError
from ..io.files import digest, display_path
from ..registry import checked
from .base import LabeledImages

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".jpg", ".jpeg", ".png")
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Filter = Literal["bilinear", "bicubic"]


@checked
@dataclass(frozen=True)
class Preprocess:
    """The preprocessing of images: decode, resize, and crop the center.

    Attributes:
        resize: Length of the shorter side, or ``(height, width)``, in pixels. None keeps the size.
        crop: Side of the central square to keep, in pixels. None keeps the whole image.
        filter: Filter of the resizing: ``bilinear`` or ``bicubic``.
    """

    resize: int | tuple[int, int] | None = None
    crop: int | None = None
    filter: Filter = "bilinear"

    def __call__(self, file: str | Path | BinaryIO, name: str | None = None) -> Tensor:
        """Return an image ``(3, H, W)``, floats in [0, 1]. ``name`` is its name in messages."""
        import torch

        try:
            with Image.open(file) as image:
                resized = self._resized(image.convert("RGB"))
        # Pillow's decoders raise OSError, SyntaxError, ValueError, zlib.error, struct.error, ...
        except Exception as error:
            raise ReservoirError(
                f"{name or file} cannot be decoded ({error}): run 'reservoir check' on the "
                "data set to find all such files"
            ) from error
        pixels = np.array(self._cropped(resized, str(name or file)))
        return torch.from_numpy(pixels).permute(2, 0, 1).float().div_(255)

    def _resized(self, image: Image.Image) -> Image.Image:
        if self.resize is None:
            return image
        if isinstance(self.resize, int):
            short = min(image.size)
            width, height = (max(1, int(self.resize * side / short)) for side in image.size)
        else:
            height, width = self.resize
        return image.resize((width, height), FILTERS[self.filter])

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


class FileImages(LabeledImages):
    """Images from files, which are decoded when they are read. Names are relative to the root."""

    def __init__(
        self, root: Path, names: Sequence[str], labels: Sequence[int], preprocess: Preprocess
    ) -> None:
        if not names:
            raise ReservoirError(
                f"there are no images in {display_path(root)}: run 'reservoir check' on it"
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
        """Return a hash that also covers names and sizes. A missing file has no size."""
        paths = [(name, self.root / name) for name in self.names]
        sizes = [f"{n}\t{p.stat().st_size if p.is_file() else None}\n" for n, p in paths]
        return digest("".join([super().manifest(), *sizes]))


def image_folder(
    root: str | Path,
    resize: int | tuple[int, int] | None = 256,
    crop: int | None = 224,
    filter: Filter = "bilinear",
) -> FileImages:
    """Return the images ``CLASS/*.JPEG``, as in ImageNet, with labels by order of the classes."""
    root = Path(root)
    names, labels = list_classes(root, list_folders(root))
    return FileImages(root, names, labels, Preprocess(resize, crop, filter))


def list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without hidden ones."""
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def list_classes(folder: Path, classes: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return ``CLASS/IMAGE`` and label of all images in a folder; labels index ``classes``."""
    names, labels = [], []
    for label, name in enumerate(classes):
        for image in sorted(os.listdir(folder / name)):
            if image.lower().endswith(SUFFIXES) and not image.startswith("."):
                names.append(f"{name}/{image}")
                labels.append(label)
    return names, labels


def read_list(path: Path, remedy: str = "check the path") -> list[list[str]]:
    """Return the words of each line in a list of images, without empty lines."""
    if not path.is_file():
        raise ReservoirError(f"there is no image list {path}: {remedy}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip()]
