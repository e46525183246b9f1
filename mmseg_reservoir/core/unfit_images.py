"""Clear errors for images of an unsupported size or dtype."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from ..errors import ReservoirError

_SMALL = 32
"""Side length in pixels that common networks reduce to one."""


@contextmanager
def explain_unfit(network: nn.Module, images: Tensor) -> Iterator[None]:
    """Replace torch's errors about the size or dtype of images by clear ones, in this context.

    Images are not checked before the call, since a network may cast or pad them.

    Args:
        network: Network that is called.
        images: Input of the network, ``(N, C, H, W)``.
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
