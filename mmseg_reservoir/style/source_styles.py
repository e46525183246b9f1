"""Styles of source batches: encoded one by one, or put together from images encoded once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor

from ..errors import ReservoirError
from .image_moments import ImageMoments

_logger = logging.getLogger(__name__)

ENOUGH = 50
"""Source batches below which tau is uncertain: 10 of them scatter by a factor of two."""
INTERVAL = 30.0
"""Seconds between two lines that tell how far a calibration is."""


class SourceImages(Protocol):
    """Batches of source images as the model gets them; can be read again and again."""

    batch_size: int | None
    """Images of a complete batch; None if any size is."""

    def __iter__(self) -> Iterator[Tensor]: ...

    def identity(self) -> Mapping[str, Any] | None:
        """What the batches depend on, as plain JSON values; None if that is not known."""


def encoded_styles(
    encode: Callable[[Tensor], Tensor],
    source: SourceImages | Iterable[Tensor],
    batches: int | None,
) -> list[Tensor]:
    """The styles of complete batches, of as many passes over the source as are needed.

    Args:
        encode: From a batch to its style.
        source: Of which smaller batches are left out.
        batches: How many; None for one pass.
    """

    def one_pass(at_most: int | None) -> list[Tensor]:
        # Without smaller batches: the style of a batch depends on its size, which the source may
        # know from its first batch on.
        complete = (x for x in source if getattr(source, "batch_size", None) in (None, len(x)))
        return [encode(images).cpu() for images in _told(islice(complete, at_most))]

    styles = one_pass(batches)
    if not styles:
        _refuse_small(source)
    in_a_pass = len(styles)
    while batches is not None and len(styles) < batches:
        more = one_pass(batches - len(styles))
        if not more or torch.equal(more[0], styles[0]):
            raise ReservoirError(
                f"reservoir.calibration.batches asks for {batches} source batches, but the "
                f"source has the same {in_a_pass} in every pass: let it shuffle, as "
                "DataLoader(shuffle=True) does, say reservoir.calibration.once=True, or leave the "
                "option out"
            )
        styles += more
    _warn_of_few(styles)
    return styles


def pooled_styles(
    encode: Any, source: SourceImages | Iterable[Tensor], batches: int
) -> list[Tensor]:
    """The styles of random batches of the images of one pass, each of which is encoded once.

    Args:
        encode: An encoder that pools (see ``Encoder.pools``).
        source: All its images count, those of a smaller last batch too.
        batches: How many; their images are drawn with a fixed seed.
    """
    if not getattr(encode, "pools", False):
        raise ReservoirError(
            "reservoir.calibration.once needs a style encoder that tells the moments of single "
            "images, as reservoir.style.type='vgg' does: leave the option out"
        )
    seen: list[list[ImageMoments]] = []
    size = None
    for images in _told(source):
        size = size or getattr(source, "batch_size", None) or len(images)
        seen.append([ImageMoments(m.cpu(), v.cpu(), p) for m, v, p in encode.moments(images)])
    taps = [ImageMoments.join(parts) for parts in zip(*seen, strict=True)]
    count = len(taps[0].means) if taps else 0
    if size is None or count < size:
        _refuse_small(source)
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randperm(count, generator=generator)[:size] for _ in range(batches))
    styles = [encode.pooled([tap.take(images) for tap in taps]) for images in drawn]
    _warn_of_few(styles)
    return styles


def _warn_of_few(styles: list[Tensor]) -> None:
    if len(styles) < ENOUGH:
        _logger.warning(
            "only %d source batches: the reservoir's threshold tau, a quantile of their distances, "
            "is uncertain below %d (a handful gives a third of the right one). Give more source "
            "images, or let the source shuffle and say reservoir.calibration.batches=1000",
            len(styles),
            ENOUGH,
        )


def _refuse_small(source: SourceImages | Iterable[Tensor]) -> NoReturn:
    raise ReservoirError(
        f"the source has no complete batch of {getattr(source, 'batch_size', 1)} images: add "
        "images, or lower the batch size"
    )


def _told(batches: Iterable[Tensor]) -> Iterator[Tensor]:
    """The batches; now and then a line tells how many there were, also without a terminal."""
    _logger.info("calibrating: reading the source images ...")
    last = time.monotonic()
    for count, images in enumerate(batches, start=1):
        yield images
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            _logger.info("calibrating: %d source batches so far", count)
