"""CoTTA: continual test-time domain adaptation (Wang et al., CVPR 2022), for segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate

from ..errors import ReservoirError
from ..option_types import Positive
from ..params.normalization import goes_by_batch
from ..registry import register
from .base import Forward
from .common.mean_teacher import MeanTeacher, as_logits

RATIOS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
_SCORES = ("composite", "mean", "single")


@dataclass(frozen=True)
class View:
    """Images at ``ratio`` times their size, mirrored left to right if ``flip``."""

    ratio: float = 1.0
    flip: bool = False

    def show(self, inputs: Tensor) -> Tensor:
        """Return the view of images."""
        inputs = resized(inputs, scaled(inputs.shape[-2:], self.ratio))
        return inputs.flip(-1) if self.flip else inputs

    def read(self, logits: Tensor, size: Sequence[int]) -> Tensor:
        """Convert logits of the view to probabilities ``(N, C, *size)`` of the images."""
        probabilities = resized(logits, size).softmax(dim=1)
        return probabilities.flip(-1) if self.flip else probabilities

    def probabilities(self, forward: Forward, inputs: Tensor, size: Sequence[int]) -> Tensor:
        """Return the model's probabilities ``(N, C, *size)`` of the images, by this view."""
        return self.read(forward(self.show(inputs)), size)


def make_views(ratios: Sequence[float] = RATIOS, flip: bool = True) -> list[View]:
    """Return one view per ratio, and a mirrored one if ``flip``."""
    return [View(*both) for both in product(ratios, (False, True) if flip else (False,))]


def scaled(size: Sequence[int], ratio: float) -> tuple[int, ...]:
    """Scale a size in pixels, and round it as image libraries do."""
    return tuple(max(1, int(length * ratio + 0.5)) for length in size)


def resized(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Resize maps ``(N, C, H, W)``."""
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    return interpolate(maps, size=tuple(size), mode="bilinear", align_corners=False)


@register("method", "cotta")
class Cotta(MeanTeacher):
    """Mean teacher with labels from several views of an image, for pixels.

    The anchor is the source model. For images see :class:`CottaImages`.

    - Label: where the anchor is confident, the teacher's prediction for the unchanged image;
      elsewhere the teacher's mean softmax over the views.
    - Loss: cross-entropy of the student on the unchanged image with the hard label.
    - Teacher and restoration: see :class:`MeanTeacher`.

    ``CoTTA*`` of the ReservoirTTA paper adapts the affine parameters of normalization layers with
    ``restore=0``, the default. Full CoTTA: ``params=dict(type="all")`` and ``restore=0.01``.

    Args:
        confidence: Probability of the anchor above which it is confident. Defaults to 0.69.
        ratios: Scales of the views. Defaults to ``RATIOS``.
        flip: Whether to add a mirrored view of each scale. Defaults to True.
        label_scale: Size of the labels over that of the inputs: 2 for ACDC at half size. Defaults
            to 1.
        at_once: Whether image and mirror image form one batch, which is faster and takes more
            memory. Ignored where BatchNorm uses the statistics of the batch. Defaults to True.
        score: Returned prediction: ``"composite"`` (the soft labels), ``"mean"`` (over the views)
            or ``"single"`` (the unchanged image). Defaults to ``"composite"``.
        **options: See :class:`MeanTeacher`.
    """

    supports = ("pixels",)

    def __init__(
        self,
        *args: Any,
        confidence: float = 0.69,
        ratios: Sequence[float] = RATIOS,
        flip: bool = True,
        label_scale: Positive = 1.0,
        at_once: bool = True,
        score: Literal["composite", "mean", "single"] = "composite",
        **options: Any,
    ) -> None:
        self.confidence = confidence
        self.views = make_views(ratios, flip)
        self.label_scale = label_scale
        self.score = score
        if not self.views:
            raise ReservoirError("method.ratios is empty: cotta needs one or more")
        super().__init__(*args, **options)
        self.at_once = at_once and not goes_by_batch(self.space.model)

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            single = self._single(inputs)
            mean = self._mean(inputs, single)
            composite = self._compose(inputs, single, mean)
        prediction = {"composite": composite, "mean": mean, "single": single}[self.score]
        self.take_student()
        logits = resized(self.forward(inputs), composite.shape[-2:])
        return as_logits(prediction), cross_entropy(logits, composite.argmax(dim=1))

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Return the prediction, with the current parameters as the teacher."""
        single = self._single(inputs)
        if self.score == "single":
            return as_logits(single)
        mean = self._mean(inputs, single)
        if self.score == "mean":
            return as_logits(mean)
        return as_logits(self._compose(inputs, single, mean))

    def _single(self, inputs: Tensor) -> Tensor:
        size = scaled(inputs.shape[-2:], self.label_scale)
        return View().probabilities(self.forward, inputs, size)

    def _mean(self, inputs: Tensor, single: Tensor) -> Tensor:
        total = torch.zeros_like(single)
        for _, of_a_size in groupby(self.views, key=lambda view: view.ratio):
            views = list(of_a_size)
            if View() in views:  # already computed
                views.remove(View())
                total += single
            for batch in [views] if self.at_once and views else [[view] for view in views]:
                seen = self.forward(torch.cat([view.show(inputs) for view in batch]))
                for view, logits in zip(batch, seen.chunk(len(batch)), strict=True):
                    total += view.read(logits, single.shape[-2:])
        return total / len(self.views)

    def _compose(self, inputs: Tensor, single: Tensor, mean: Tensor) -> Tensor:
        # Only the anchor's confidence on the unchanged image matters.
        with self.space.at(self.source):
            anchor = self._single(inputs)
        confident = anchor.amax(dim=1, keepdim=True) > self.confidence
        return torch.where(confident, single, mean)
