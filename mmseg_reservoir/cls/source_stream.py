"""Source images of a classifier, in batches of the stream's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..core.image_range import ImageRange
from ..errors import ReservoirError
from ..style.calibration import Calibration


@dataclass(eq=False)
class SourceStream:
    """A user's source images as batches on the network's device.

    Args:
        batches: List or ``DataLoader`` of images; labels are ignored.
        batch_size: Images per batch. None uses the size of the first batch.
        image_range: Range of the values, which the images must have.
        device: Device of the network.
    """

    batches: Iterable[Any]
    batch_size: int | None
    image_range: ImageRange
    device: torch.device

    def __post_init__(self) -> None:
        """Raise an error if the source is not iterable, or can be read only once."""
        source = self.batches
        if isinstance(source, Calibration):
            raise ReservoirError(
                "a Calibration is no source image: give it as reservoir=dict(calibration=...), and "
                "images as source=... where the method learns from them"
            )
        if isinstance(source, Tensor):
            raise ReservoirError(
                f"source is one tensor {tuple(source.shape)}: give batches of the stream's size, "
                "as images.split(64) makes them"
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

    def __iter__(self) -> Iterator[Tensor]:
        waiting: list[Tensor] = []
        for batch in self.batches:
            images = images_of(batch)
            self.image_range.check(images)
            if self.batch_size is None:
                self.batch_size = len(images)
            waiting.append(images)
            if sum(map(len, waiting)) >= self.batch_size:
                images = waiting[0] if len(waiting) == 1 else torch.cat(waiting)
                parts = list(images.split(self.batch_size))
                waiting = [parts.pop()] if len(parts[-1]) < self.batch_size else []
                yield from (part.to(self.device) for part in parts)
        if waiting:
            yield torch.cat(waiting).to(self.device)

    def identity(self) -> None:
        """Return None, because a calibration on a custom loader cannot be cached."""


def images_of(batch: Any) -> Tensor:
    """Return the images of a batch: a tensor, or the only images of a tuple or list."""
    parts = batch if isinstance(batch, (tuple, list)) else [batch]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    images = [part for part in tensors if part.ndim == 4]
    if len(images) == 1:
        return images[0]
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
