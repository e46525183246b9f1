"""What a style encoder looks at of an image: fewer pixels, less time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import interpolate

from ..errors import ReservoirError

Size = tuple[int, int] | int | float
"""``(height, width)``, the length of the shorter side, or a share of both sides."""


def reduced(images: Tensor, size: Size) -> Tensor:
    """Images ``(N, C, H, W)`` in the size in which they are looked at.

    A pair is taken literally, whatever the proportions. The other two keep them, never enlarge,
    and let a pixel be the mean of those it stands for, so that noise and texture fade alike in
    all images.
    """
    if isinstance(size, tuple):
        return interpolate(images, size, mode="bilinear", antialias=True)
    sides = images.shape[-2:]
    share = size if isinstance(size, float) else size / min(sides)
    if share >= 1:
        return images
    height, width = (max(1, round(share * side)) for side in sides)
    return interpolate(images, (height, width), mode="area")


def middle(images: Tensor, share: float) -> Tensor:
    """The middle of images ``(N, C, H, W)``, so much of both sides, each pixel as it is.

    Of a batch, parts of all images tell more of its style than all of some images do, and noise and
    blur, which a smaller copy would smooth away, stay.
    """
    height, width = (max(1, round(share * side)) for side in images.shape[-2:])
    top, left = ((images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2)
    return images[..., top : top + height, left : left + width]


def check_crop(crop: Any) -> float | None:
    """A share of both sides as it was written, if it is one."""
    is_number = isinstance(crop, (int, float)) and not isinstance(crop, bool)
    if crop is None or (is_number and 0 < crop <= 1):
        return crop
    raise ReservoirError(
        f"reservoir.style.crop must be a share of both sides in (0, 1], or None, got {crop!r}"
    )


def check_size(size: Any) -> Size | None:
    """A size as it was written, if it is one."""
    if size is None:
        return None
    if isinstance(size, Sequence) and len(size) == 2 and all(_is_side(side) for side in size):
        height, width = size
        return height, width
    if _is_side(size) or (isinstance(size, float) and 0 < size <= 1):
        return size
    raise ReservoirError(
        "reservoir.style.size must be (height, width), the length of the shorter side in pixels, "
        f"a share of both sides in (0, 1], or None, got {size!r}"
    )


def _is_side(side: Any) -> bool:
    return isinstance(side, int) and not isinstance(side, bool) and side > 0
