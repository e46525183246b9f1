"""TENT: fully test-time adaptation by entropy minimization (Wang et al., ICLR 2021)."""

from __future__ import annotations

from torch import Tensor

from ..core.losses import entropy
from ..registry import register
from .base import AdaptationMethod


@register("method", "tent")
class Tent(AdaptationMethod):
    """Minimize the mean softmax entropy of the prediction, of images or of pixels (Eq. 1)."""

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.forward(inputs)
        return logits, entropy(logits).mean()
