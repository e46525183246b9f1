"""Images that are one array of bytes, such as a ``.npy`` file that is mapped into memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...errors import ReservoirError
from .base import LabelledImages


class ArrayImages(LabelledImages):
    """Images ``(n, H, W, 3)`` from 0 to 255.

    Args:
        pixels: The array, in memory or mapped; only what a batch needs is read.
        labels: As many.
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != np.uint8:
            raise ReservoirError(
                f"images must be bytes (n, H, W, 3), got {pixels.dtype} {pixels.shape}"
            )
        if labels.shape != pixels.shape[:1]:
            raise ReservoirError(f"{len(pixels)} images, but labels of shape {labels.shape}")
        self.pixels = pixels
        self.labels = np.asarray(labels, np.int64)

    def read(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        found = torch.from_numpy(np.ascontiguousarray(self.pixels[np.asarray(indices, np.int64)]))
        return found.permute(0, 3, 1, 2).float().div_(255).contiguous()
