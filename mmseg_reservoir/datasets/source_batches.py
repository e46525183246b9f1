"""Batches of clean images, for the source of a reservoir."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from ..errors import ReservoirError
from .base import LabelledImages


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
