"""Views of an image: rescaled and mirrored copies, whose predictions are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch import Tensor
from torch.nn.functional import interpolate

from ..base import Forward

RATIOS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


@dataclass(frozen=True)
class View:
    """The image at ``ratio`` times its size, mirrored left to right if ``flip``."""

    ratio: float = 1.0
    flip: bool = False

    def probabilities(self, forward: Forward, inputs: Tensor, size: Sequence[int]) -> Tensor:
        """What the model says of this view, as probabilities ``(N, C, *size)`` of the image."""
        if self.ratio != 1:
            wanted = scaled(inputs.shape[-2:], self.ratio)
            inputs = resized(inputs, wanted)
        logits = forward(inputs.flip(-1) if self.flip else inputs)
        probabilities = resized(logits, size).softmax(dim=1)
        return probabilities.flip(-1) if self.flip else probabilities


def make_views(ratios: Sequence[float] = RATIOS, flip: bool = True) -> list[View]:
    """Every ratio, plain and (if ``flip``) mirrored."""
    return [View(*both) for both in product(ratios, (False, True) if flip else (False,))]


def scaled(size: Sequence[int], ratio: float) -> tuple[int, ...]:
    """A size in pixels times a ratio, rounded as image libraries do."""
    return tuple(max(1, int(length * ratio + 0.5)) for length in size)


def resized(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Maps ``(N, C, H, W)`` at another size."""
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    return interpolate(maps, size=tuple(size), mode="bilinear", align_corners=False)
