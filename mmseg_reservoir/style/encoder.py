"""Style encoders: a batch of images in, one vector out that describes how they look."""

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
    """A frozen map from a batch to one style vector: nothing in it adapts.

    A custom encoder only needs ``forward``::

        @register("style", "color")
        class Color(Encoder):
            def forward(self, images: Tensor) -> Tensor:
                return images.mean(dim=(0, 2, 3))
    """

    sees: ClassVar[Literal["imagenet", "inputs"]] = "imagenet"
    """Which images it expects: RGB normalized as for ImageNet, or the inputs of the model."""

    groups: list[int] | None = None
    """Lengths of the blocks of a style vector, one per tap; None if it has no blocks."""

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that a style depends on, as plain JSON values.

        Styles can only be compared if their encoders have equal fingerprints.
        """
        return {"encoder": type(self).__name__, "weights": weight_digest(self)}

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Return the style vector ``(d,)`` of images ``(N, 3, H, W)``."""


class NormalizingEncoder:
    """An encoder behind a conversion of the model's inputs to the images that it expects."""

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

    A pair is used as it is, whatever the proportions. The other two keep the proportions and never
    enlarge. They average pixels, so that noise and texture fade alike in all images.
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

    Parts of all images of a batch describe its style better than all of a few images. Noise and
    blur, which a smaller copy would smooth away, stay.
    """
    height, width = (max(1, round(fraction * side)) for side in images.shape[-2:])
    top, left = ((images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2)
    return images[..., top : top + height, left : left + width]


def as_pair(size: Size | None) -> Size | None:
    """Return a size, a list as a tuple."""
    return (size[0], size[1]) if isinstance(size, Sequence) else size
