"""CoTTA: continual test-time domain adaptation (Wang et al., CVPR 2022), for segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..errors import ReservoirError
from ..options import choose, register
from .parts.mean_teacher import MeanTeacher, as_logits
from .parts.views import RATIOS, View, make_views, resized, scaled

_SCORES = ("composite", "mean", "single")


@register("method", "cotta")
class Cotta(MeanTeacher):
    """A student learns from the labels of its own moving average, the teacher.

    The student's and the teacher's adapted values belong to the domain (:class:`MeanTeacher`); a
    third network, the anchor, has the source's. For images there is :class:`CottaImages`.

    - Teacher: ``theta' <- m theta' + (1 - m) theta`` after every step of the student.
    - Label: where the anchor is confident on the image as it is, the teacher's prediction for the
      image as it is; elsewhere its mean over the views (their softmax, at the size of the labels).
    - Loss: cross-entropy of the student on the image as it is with the hard label.
    - Restoration: after the step every value goes back to the source with probability ``restore``.

    ``CoTTA*`` of the ReservoirTTA paper adapts the affine parameters of normalisation layers, and
    has ``restore=0``, the default. Full CoTTA: ``params=dict(type="all")`` and ``restore=0.01``.

    Args:
        confidence: The anchor is confident where its largest probability is above this.
        ratios: Scales of the views.
        flip: Whether each scale is also seen mirrored.
        label_scale: Size of the labels over that of the inputs: 2 for ACDC fed at half size.
        score: What is returned as the prediction: the ``"composite"`` that the labels come from,
            the ``"mean"`` over the views, or the ``"single"`` image as it is.
        **options: See :class:`MeanTeacher`.
    """

    handles = ("pixels",)

    def __init__(
        self,
        *args: Any,
        confidence: float = 0.69,
        ratios: Sequence[float] = RATIOS,
        flip: bool = True,
        label_scale: float = 1.0,
        score: Literal["composite", "mean", "single"] = "composite",
        **options: Any,
    ) -> None:
        self.confidence = confidence
        self.views = make_views(ratios, flip)
        self.label_scale = label_scale
        self.score = choose(score, {name: name for name in _SCORES}, "score of cotta")
        if not (self.views and label_scale > 0):
            raise ReservoirError(
                "cotta needs one ratio or more and a positive label_scale, got "
                f"{list(ratios)} and {label_scale}"
            )
        super().__init__(*args, **options)

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction, and the student's cross-entropy with the composite label."""
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
        """What is scored, with the current parameters as the teacher."""
        single = self._single(inputs)
        if self.score == "single":
            return as_logits(single)
        mean = self._mean(inputs, single)
        if self.score == "mean":
            return as_logits(mean)
        return as_logits(self._compose(inputs, single, mean))

    def _single(self, inputs: Tensor) -> Tensor:
        return View().probabilities(self.forward, inputs, self._label_size(inputs))

    def _mean(self, inputs: Tensor, single: Tensor) -> Tensor:
        total = torch.zeros_like(single)
        for view in self.views:
            seen = view == View()  # that one has been computed
            size = single.shape[-2:]
            total += single if seen else view.probabilities(self.forward, inputs, size)
        return total / len(self.views)

    def _compose(self, inputs: Tensor, single: Tensor, mean: Tensor) -> Tensor:
        # The anchor sees one view, not fourteen: its confidence on the others is not asked for.
        with self.space.at(self.source):
            anchor = self._single(inputs)
        confident = anchor.amax(dim=1, keepdim=True) > self.confidence
        return torch.where(confident, single, mean)

    def _label_size(self, inputs: Tensor) -> tuple[int, ...]:
        return scaled(inputs.shape[-2:], self.label_scale)
