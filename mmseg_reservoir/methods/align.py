"""Alignment alone: experts that need no gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from ..registry import register
from .source import Source


@register("method", "align")
class Align(Source):
    """Predicts with the source's parameters; only the alignment of the reservoir adapts.

    One forward pass per batch in inference mode, so it also runs networks that have no gradient.
    Without a reservoir, or with ``reservoir.alignment=None``, it is the source model.
    """

    def adapt(self, inputs: Tensor) -> Tensor:
        """Predict a batch."""
        self.counts["skipped"] += 1
        return self.predict(inputs)

    def predict(self, inputs: Tensor) -> Tensor:
        """Predict a batch in inference mode."""
        with torch.inference_mode():
            logits = self.forward(inputs)
        return logits.clone()  # a plain tensor, which callers may change in place
