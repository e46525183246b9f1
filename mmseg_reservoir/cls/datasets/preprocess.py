"""From a picture on disk to the size that a network wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ...errors import ReservoirError

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Preprocess:
    """Resize, then cut out the centre.

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
        """Decode one picture: ``(3, H, W)``, floats in [0, 1].

        Args:
            file: Path or open file.
            name: What to call it in messages.
        """
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
        return image if size == image.size else image.resize(size, FILTERS[self.filter])

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
