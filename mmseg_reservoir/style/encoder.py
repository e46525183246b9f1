"""What a style encoder is: a batch of images in, one vector out that tells how they look."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from ..core.state import tensor_bytes
from .image_moments import ImageMoments


class Encoder(nn.Module, ABC):
    """Turns a batch into one style vector, always in the same way: nothing in it adapts.

    One of your own needs ``forward`` alone::

        @register("style", "colour")
        class Colour(Encoder):
            def forward(self, images: Tensor) -> Tensor:
                return images.mean(dim=(0, 2, 3))
    """

    sees: ClassVar[Literal["imagenet", "inputs"]] = "imagenet"
    """Which images it wants: RGB normalised as for ImageNet's networks, or the model's inputs."""

    groups: list[int] | None = None
    """Lengths of the blocks of a style vector, one per tap; None if it has none."""

    pools: ClassVar[bool] = False
    """Whether it has :meth:`moments` and :meth:`pooled`, by which batches can be put together from
    images that are encoded once."""

    def fingerprint(self) -> dict[str, Any]:
        """Everything that a style depends on, as plain JSON values.

        Styles are compared only with styles of an encoder that has the same.
        """
        return {"encoder": type(self).__name__, "weights": weight_digest(self)}

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Style vector ``(d,)`` of images ``(N, 3, H, W)``."""

    def moments(self, images: Tensor) -> list[ImageMoments]:
        """What the style of any batch with these images follows from, one per tap."""
        raise NotImplementedError

    def pooled(self, taps: Sequence[ImageMoments]) -> Tensor:
        """The style of a batch from the moments of its images, as if it had been encoded."""
        raise NotImplementedError


class NormalizingEncoder:
    """An encoder behind a conversion of the inputs to what it wants to see."""

    def __init__(self, encoder: Encoder, convert: Callable[[Tensor], Tensor]) -> None:
        self.encoder = encoder
        self.convert = convert

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.encoder(self.convert(inputs))

    def moments(self, inputs: Tensor) -> list[ImageMoments]:
        """See :class:`Encoder`."""
        return self.encoder.moments(self.convert(inputs))

    def pooled(self, taps: Sequence[ImageMoments]) -> Tensor:
        """See :class:`Encoder`."""
        return self.encoder.pooled(taps)

    @property
    def pools(self) -> bool:
        """See :class:`Encoder`."""
        return self.encoder.pools

    @property
    def groups(self) -> list[int] | None:
        return self.encoder.groups

    def fingerprint(self) -> dict[str, Any]:
        return self.encoder.fingerprint()


def weight_digest(module: nn.Module) -> str:
    """A checksum of all weights of a module."""
    digest = hashlib.sha256()
    for value in module.state_dict().values():
        digest.update(tensor_bytes(value))
    return digest.hexdigest()
