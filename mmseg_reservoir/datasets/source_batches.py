"""Batches of clean source images, for the calibration of methods and routers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..config.schema import Options, PartSpec, pick
from ..errors import ReservoirError
from ..option_types import Count, check_value
from ..registry import find, parameters_of, suggest
from .base import LabeledImages

if TYPE_CHECKING:
    from torch import Tensor


class SourceBatches:
    """Batches of randomly drawn source images. Each pass has the same images in another order.

    Args:
        images: Source images.
        batch_size: Images per batch, as in the stream. A smaller last batch is dropped.
        count: Number of images to draw. Defaults to 2000, as in the paper, or to all if fewer.
        seed: Seed of the draw and of the orders.
    """

    def __init__(
        self, images: LabeledImages, batch_size: int = 200, count: int = 2000, seed: int = 0
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self.chosen = self._rng.permutation(len(images))[:count]
        if not 1 <= batch_size <= len(self.chosen):
            raise ReservoirError(
                f"{len(self.chosen)} source images make no batch of {batch_size}: batch_size must "
                "be 1 or more, and source_images.num_images at least as large"
            )
        self.images = images
        self.batch_size = batch_size

    def __len__(self) -> int:
        return len(self.chosen) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = self._rng.permutation(self.chosen)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.images.batch(order[start : start + self.batch_size])


class LazySource:
    """Source batches that are opened at their first use, because some methods never use them.

    The options are ``type``, the options of this type, and ``num_images``.
    """

    def __init__(self, options: Options, batch_size: int, seed: int) -> None:
        self.images, count = source_options(options)
        self.arguments = {"batch_size": batch_size, "seed": seed, **count}

    @cached_property
    def _batches(self) -> SourceBatches:
        return SourceBatches(self.images.build(), **self.arguments)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self._batches


def source_options(options: Options) -> tuple[PartSpec, dict[str, int]]:
    """Check the options of source images; return the part to build, and the number of images."""
    options = dict(options)
    valid = ("type", "num_images", *parameters_of(find("source", options.get("type", ""))))
    for name in options:
        if name not in valid:
            raise ReservoirError(f"source_images has no option {name!r}{suggest(name, valid)}")
    count = {"count": options.pop("num_images")} if "num_images" in options else {}
    if count:
        count["count"] = check_value(count["count"], Count, "source_images.num_images")
    return pick("source", options, "source_images"), count
