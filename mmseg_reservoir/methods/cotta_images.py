"""CoTTA: continual test-time domain adaptation (Wang et al., CVPR 2022), for classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..option_types import Count
from ..registry import construct, register
from .common.augment import Augment
from .common.by_classes import by_classes
from .common.mean_teacher import MeanTeacher, as_logits, soft_cross_entropy


@register("method", "cotta_images")
class CottaImages(MeanTeacher):
    """Mean teacher with labels from augmented views, for images.

    The anchor is the source model. ``CoTTA*`` and full CoTTA differ as in :class:`Cotta`.

    - Label: the teacher's prediction for the unchanged images. If the anchor's mean confidence in
      the batch is below ``confidence``, it is the teacher's mean over ``views`` augmentations
      (Eq. 3 and 4). ``counts["augmented"]`` counts these batches. The label is also the method's
      prediction.
    - Loss: soft cross-entropy ``-sum_c y'_c log y_c`` of the student on the unchanged images with
      that label (Eq. 1).
    - Teacher and restoration: see :class:`MeanTeacher` (Eq. 2 and 5 to 8).

    Args:
        confidence: Confidence of the anchor below which images are augmented: 0.92 for CIFAR-10-C,
            0.72 for CIFAR-100-C, 0.1 for ImageNet-C. Defaults to the value for the number of
            classes (:func:`by_classes`).
        views: Number of augmentations. Defaults to 32.
        average: Averaged values of the views: ``"probabilities"`` (Eq. 3) or ``"logits"`` (the
            published implementation). Defaults to ``"probabilities"``.
        augment: Options of :class:`Augment`.
        **options: See :class:`MeanTeacher`.
    """

    supports = ("images",)

    def __init__(
        self,
        *args: Any,
        confidence: float | None = None,
        views: Count = 32,
        average: Literal["probabilities", "logits"] = "probabilities",
        augment: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.confidence = confidence
        self.views = views
        self.of_logits = average == "logits"
        self.augment = construct(Augment, augment or {}, "method.augment")
        super().__init__(*args, **options)
        self.counts["augmented"] = 0

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            unsure = self._is_unsure(inputs)
            label = self._label(inputs, unsure)
        self.counts["augmented"] += unsure
        self.take_student()
        return as_logits(label), soft_cross_entropy(self.forward(inputs), label).mean()

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Return the label, with the current parameters as the teacher.

        The random generator is restored afterwards, since a prediction must not change the run.
        """
        state = self.generator.get_state()
        label = self._label(inputs, self._is_unsure(inputs))
        self.generator.set_state(state)
        return as_logits(label)

    def _is_unsure(self, inputs: Tensor) -> bool:
        with self.space.at(self.source):
            anchor = self.forward(inputs).softmax(dim=1)
        if self.confidence is None:
            self.confidence = by_classes("confidence", anchor.shape[1])
        return bool(anchor.amax(dim=1).mean() < self.confidence)

    def _label(self, inputs: Tensor, unsure: bool) -> Tensor:
        if not unsure:
            return self.forward(inputs).softmax(dim=1)
        total = inputs.new_zeros(())
        for _ in range(self.views):
            logits = self.forward(self.augment(inputs, self.generator))
            total = total + (logits if self.of_logits else logits.softmax(dim=1))
        mean = total / self.views
        return mean.softmax(dim=1) if self.of_logits else mean
