"""Clear errors for images that a network cannot take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from ..errors import ReservoirError

_SMALL = 32
"""Pixels of a side that common networks reduce to one."""


@contextmanager
def explain_unfit(network: nn.Module, images: Tensor) -> Iterator[None]:
    """Replace an error of torch that the size or the dtype of images causes by a clear one.

    Nothing is refused before the call: a network may cast or pad images itself.

    Args:
        network: The network that is called.
        images: The images that it is called with, ``(N, C, H, W)``.
    """
    try:
        yield
    except RuntimeError as error:
        name, reason = type(network).__name__, str(error).splitlines()[0]
        dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in network.parameters()})
        dtype = str(images.dtype).removeprefix("torch.")
        height, width = images.shape[-2:]
        if dtypes and dtype not in dtypes:
            raise ReservoirError(
                f"{name} has parameters of {' and '.join(dtypes)} and got images of {dtype} "
                f"({reason}): convert the images, of the source too, or use torch.autocast"
            ) from error
        if min(height, width) < _SMALL:
            raise ReservoirError(
                f"images of {width}x{height} pixels are too small for {name} ({reason}): give "
                "larger ones"
            ) from error
        raise
