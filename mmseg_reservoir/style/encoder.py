"""Style encoders, which map a batch of images to a vector that describes their appearance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..core.state import tensor_bytes
from ..io.files import digest
from ..option_types import Count, PositiveFraction

Size = Annotated[
    tuple[Count, Count] | Count | PositiveFraction,
    "(height, width), the length of the shorter side in pixels, or a share of both sides in (0, 1]",
]


class Encoder(nn.Module, ABC):
    """Base class of style encoders: frozen maps from a batch to one style vector.

    A custom encoder only needs ``forward``::

        @register("style", "color")
        class Color(Encoder):
            def forward(self, images: Tensor) -> Tensor:
                return images.mean(dim=(0, 2, 3))
    """

    sees: ClassVar[Literal["imagenet", "inputs"]] = "imagenet"
    """Expected images: RGB normalized as for ImageNet, or the inputs of the model."""

    groups: list[int] | None = None
    """Lengths of the blocks of a style vector, one per tap; None if it has no blocks."""

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings that a style depends on, as plain JSON values.

        Styles can only be compared if their encoders have equal fingerprints.
        """
        return {"encoder": type(self).__name__, "weights": weight_digest(self)}

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Return the style vector ``(d,)`` of images ``(N, 3, H, W)``."""


class NormalizingEncoder:
    """An encoder with a conversion of the model's inputs to the images that it expects."""

    def __init__(self, encoder: Encoder, convert: Callable[[Tensor], Tensor]) -> None:
        self.encoder = encoder
        self.convert = convert

    def __call__(self, inputs: Tensor) -> Tensor:
        styles: Tensor = self.encoder(self.convert(inputs))
        return styles

    @property
    def groups(self) -> list[int] | None:
        return self.encoder.groups

    def fingerprint(self) -> dict[str, Any]:
        return self.encoder.fingerprint()


def weight_digest(module: nn.Module) -> str:
    """Return a checksum of all weights of a module."""
    return digest(map(tensor_bytes, module.state_dict().values()))


def reduced(images: Tensor, size: Size) -> Tensor:
    """Resize images ``(N, C, H, W)`` to the size at which they are encoded.

    A pair sets height and width. A number keeps the aspect ratio and never enlarges. It averages
    pixels, so that noise and texture are reduced equally in all images.
    """
    if isinstance(size, tuple):
        return interpolate(images, size, mode="bilinear", antialias=True)
    sides = images.shape[-2:]
    fraction = size if isinstance(size, float) else size / min(sides)
    if fraction >= 1:
        return images
    height, width = (max(1, round(fraction * side)) for side in sides)
    return interpolate(images, (height, width), mode="area")


def middle(images: Tensor, fraction: float) -> Tensor:
    """Crop the middle of images ``(N, C, H, W)``, a fraction of both sides, without resampling.

    Crops of all images describe the style of a batch better than a few whole images. Unlike a
    smaller copy, a crop preserves noise and blur.
    """
    height, width = (max(1, round(fraction * side)) for side in images.shape[-2:])
    top, left = ((images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2)
    return images[..., top : top + height, left : left + width]


def as_pair(size: Size | None) -> Size | None:
    """Return the size, with a list converted to a tuple."""
    return (size[0], size[1]) if isinstance(size, Sequence) else size
