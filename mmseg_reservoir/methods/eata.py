"""EATA: ETA with a Fisher regularizer against forgetting (Niu et al., ICML 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..errors import ReservoirError
from ..registry import register
from .common.by_classes import by_classes
from .eta import Eta


@register("method", "eata")
class Eata(Eta):
    """ETA plus ``fisher_alpha * sum_i F_i (theta_i - theta_i^source)^2`` (Eq. 7 and 8).

    :meth:`prepare` estimates the Fisher information ``F`` (Eq. 9) once, from unlabeled source
    batches. All domains share it, and are anchored at the source parameters.

    Args:
        fisher_alpha: Weight of the regularizer (beta): 2000 for ImageNet-C, 1 for CIFAR-10-C in the
            paper. 0 is ETA, and needs no :meth:`prepare`. Defaults to the value for the number of
            classes (:func:`by_classes`).
        **options: See :class:`Eta`.
    """

    shared_tensors = ("fisher",)

    def __init__(self, *args: Any, fisher_alpha: float | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fisher_alpha = fisher_alpha
        self.fisher: Tensor | None = None

    @property
    def needs_source(self) -> bool:
        """Return whether the Fisher information is needed."""
        return self.fisher_alpha is None or self.fisher_alpha > 0

    def prepare(self, source: Iterable[Tensor]) -> None:
        """Estimate the Fisher information: the mean over source batches of the squared gradient.

        The loss is a batch's mean cross-entropy with the model's predicted labels. Eq. 9 squares
        the gradient of every sample. The published code, for which ``fisher_alpha`` is tuned,
        squares that of every batch.
        """
        total, batches = torch.zeros_like(self.source), 0
        for inputs in source:
            gradient = self.space.zero_grad()
            with torch.enable_grad():
                logits = self.forward(inputs)
                if self.backward(cross_entropy(logits, logits.argmax(dim=1))):
                    total += gradient.square()
                    batches += 1
        if not batches:
            raise ReservoirError(
                "EATA got no source batch to estimate the Fisher information from: give source "
                "images, or set fisher_alpha=0 for ETA"
            )
        self.fisher = total / batches

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.needs_source and self.fisher is None:
            raise ReservoirError(
                "EATA has no Fisher information: give it source images (source=..., or "
                "prepare(source_batches) before the stream begins), or set fisher_alpha=0, which "
                "is the method 'eta'"
            )
        prediction, loss = super().loss(inputs)
        if self.fisher_alpha is None:
            self.fisher_alpha = by_classes("fisher_alpha", prediction.shape[1])
        if loss is not None and self.fisher_alpha > 0:
            assert self.fisher is not None, "checked above"
            drift = self.space.values - self.source
            loss = loss + self.fisher_alpha * (self.fisher * drift.square()).sum()
        return prediction, loss
