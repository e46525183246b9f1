"""The calibration of a reservoir by batches of source images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import torch
from torch import Tensor

from ..core.calibration import Calibration
from ..errors import ReservoirError


def calibrate(
    read: Callable[[], Iterable[Tensor]],
    encode: Callable[[Tensor], Tensor],
    known: Calibration | None = None,
    batches: int | None = None,
) -> Calibration:
    """The calibration that is there, or one by the styles of source batches.

    Args:
        read: Starts a pass over the complete source batches.
        encode: From a batch to its style.
        known: What is there.
        batches: How many to take; the source is read again and again until there are so many,
            which makes sense if it shuffles. None for one pass over it.
    """
    if batches is not None and (not isinstance(batches, int) or batches < 2):
        raise ReservoirError(
            f"reservoir.calibration.batches must be a whole number, 2 or more, got {batches!r}"
        )
    if known is not None:
        return known
    styles = [encode(images).cpu() for images in islice(read(), batches)]
    if not styles:
        raise ReservoirError(
            "the source has no complete batch: give batches of the stream's size, and "
            "batch_size=... if the first one is not complete"
        )
    in_a_pass = len(styles)
    while batches is not None and len(styles) < batches:
        more = [encode(images).cpu() for images in islice(read(), batches - len(styles))]
        if not more or torch.equal(more[0], styles[0]):
            raise ReservoirError(
                f"reservoir.calibration.batches asks for {batches} source batches, but the "
                f"source has the same {in_a_pass} in every pass: let it shuffle, as "
                "DataLoader(shuffle=True) does, or leave the option out"
            )
        styles += more
    return Calibration(torch.stack(styles))
