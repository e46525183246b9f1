"""Source images of a classifier, in batches of the stream's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..core.image_range import ImageRange
from ..errors import ReservoirError
from ..style.calibration import Calibration


class SourceStream:
    """What a user gave as source, as batches of images on the net's device.

    Args:
        batches: A list or a ``DataLoader``; what stands beside the images, such as labels, is
            ignored.
        batch_size: Images of a batch of the stream: the source is cut to it. None: as it comes,
            and its first batch tells.
        image_range: What its images must be.
        device: Where they are wanted.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        batch_size: int | None,
        image_range: ImageRange,
        device: torch.device,
    ) -> None:
        _check_source(batches)
        self.batch_size = batch_size
        self._batches = batches
        self._range = image_range
        self._device = device

    def __iter__(self) -> Iterator[Tensor]:
        waiting: list[Tensor] = []
        for batch in self._batches:
            images = images_of(batch)
            self._range.check(images)
            if self.batch_size is None:
                self.batch_size = len(images)
            waiting.append(images)
            if sum(map(len, waiting)) >= self.batch_size:
                *whole, rest = _cut(waiting, self.batch_size)
                yield from (part.to(self._device) for part in whole)
                waiting = [rest] if len(rest) else []
        if waiting:
            yield torch.cat(waiting).to(self._device)

    def identity(self) -> None:
        """Nobody knows what is behind a user's loader: nothing is cached."""


def images_of(batch: Any) -> Tensor:
    """The images of a batch that a loader made: a tensor, or the one of a tuple that is images."""
    parts = batch if isinstance(batch, (tuple, list)) else [batch]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    found = [part for part in tensors if part.ndim == 4]
    if len(found) == 1:
        return found[0]
    shapes = [tuple(part.shape) for part in tensors] or type(batch).__name__
    if any(part.ndim == 3 for part in tensors):
        raise ReservoirError(
            f"the source gives single images {shapes}, not batches (N, 3, H, W): wrap it in a "
            "torch.utils.data.DataLoader with the batch size of the stream"
        )
    raise ReservoirError(
        f"a batch of the source must be a tensor of images (N, 3, H, W), or a tuple with one, got "
        f"{shapes}"
    )


def _cut(waiting: list[Tensor], size: int) -> list[Tensor]:
    """Whole batches and, last, what is left over."""
    images = waiting[0] if len(waiting) == 1 else torch.cat(waiting)
    whole = len(images) // size * size
    return [*images[:whole].split(size), images[whole:]]


def _check_source(source: Any) -> None:
    """Refuse what would be misread, or can be read but once."""
    if isinstance(source, Calibration):
        raise ReservoirError(
            "a Calibration is no source image: give it as reservoir=dict(calibration=...), and "
            "images as source=... where the method learns from them"
        )
    if isinstance(source, Tensor):
        raise ReservoirError(
            f"source is one tensor {tuple(source.shape)}: give batches of the stream's size, as "
            "images.split(64) makes them"
        )
    if isinstance(source, Dataset):
        raise ReservoirError(
            f"source is a data set ({type(source).__name__}) of single images: wrap it in a "
            "torch.utils.data.DataLoader with the batch size of the stream"
        )
    if iter(source) is source:
        raise ReservoirError(
            "source is an iterator, which can be read only once: give a list or a DataLoader"
        )
