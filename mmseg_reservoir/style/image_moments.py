"""Styles of batches from moments of their images, which are computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ReservoirError
from . import statistics
from .statistics import Statistic, image_moments, name_of


class ImageMoments(NamedTuple):
    """Of the features of images at one tap.

    Args:
        means: Over space, ``(N, C)``.
        variances: Over space, unbiased, ``(N, C)``.
        pixels: Of each image; where taps stand side by side, one number per channel.
    """

    means: Tensor
    variances: Tensor
    pixels: int | Tensor

    @classmethod
    def of(cls, features: Tensor) -> ImageMoments:
        """Of features ``(N, C, H, W)``."""
        means, variances = image_moments(features)
        # In double precision: what is pooled are small differences of them.
        return cls(means.double(), variances.double(), features.shape[2] * features.shape[3])

    @classmethod
    def join(cls, parts: Sequence[ImageMoments]) -> ImageMoments:
        """All images of several batches; they have one size."""
        if len({int(part.pixels) for part in parts}) != 1:
            raise ReservoirError(
                "source images of different sizes cannot be pooled to batches: leave out "
                "reservoir.calibration.once, or resize them"
            )
        means, variances, pixels = zip(*parts, strict=True)
        return cls(torch.cat(means), torch.cat(variances), pixels[0])

    def take(self, images: Tensor) -> ImageMoments:
        """Those of some of the images."""
        return self._replace(means=self.means[images], variances=self.variances[images])

    def variance(self) -> Tensor:
        """Over all pixels of all images, unbiased, ``(C,)``."""
        n, between = len(self.means), (self.means - self.means.mean(dim=0)).square().sum(dim=0)
        scatter = (self.pixels - 1) * self.variances.sum(dim=0) + self.pixels * between
        return scatter / (n * self.pixels - 1)


def pooled(statistic: Statistic, moments: ImageMoments) -> Tensor:
    """A statistic of the features of a batch, from the moments of its images."""
    if statistic not in _POOLED:
        names = ", ".join(name_of(known) for known in _POOLED)
        raise ReservoirError(
            f"the style statistic {name_of(statistic)!r} does not follow from the moments of "
            f"images: leave out reservoir.calibration.once, or choose one of {names}"
        )
    return _POOLED[statistic](moments).float()


def _mean_var(moments: ImageMoments) -> Tensor:
    logs = (moments.variances + statistics.SMOOTHING).log()
    return torch.cat([moments.means, logs], dim=1).mean(dim=0)


_POOLED: dict[Statistic, Callable[[ImageMoments], Tensor]] = {
    statistics.logvar: lambda of: of.variance().clamp_min(statistics.SMALLEST_VARIANCE).log(),
    statistics.var: lambda of: of.variance(),
    statistics.mean: lambda of: of.means.mean(dim=0),
    statistics.mean_var: _mean_var,
}
