"""Baselines without gradients: the source model, batch statistics, and alignment alone."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..params.base import ParamSpace
from ..registry import register
from .base import AdaptationMethod, Forward, OptimizerFactory

_UNUSED = partial(torch.optim.SGD, lr=0.0)


@register("method", "source")
class Source(AdaptationMethod):
    """The source model with its BatchNorm statistics, without updates."""

    statistics = "running"

    def __init__(
        self, forward: Forward, space: ParamSpace, optimizer: OptimizerFactory = _UNUSED
    ) -> None:
        super().__init__(forward, space, optimizer)

    def loss(self, inputs: Tensor) -> tuple[Tensor, None]:
        with torch.no_grad():
            return self.forward(inputs), None


@register("method", "norm")
class Norm(Source):
    """The source model with the BatchNorm statistics of the batch.

    From "Improving robustness against common corruptions by covariate shift adaptation" (Schneider
    et al., NeurIPS 2020) and "Evaluating Prediction-Time Batch Normalization for Robustness under
    Covariate Shift" (Nado et al., 2020). A number as ``statistics`` is the weight of the batch in a
    blend with the source's: ``n / (N + n)`` for n images and the prior ``N`` of the former paper. A
    model without BatchNorm is the source model.
    """

    statistics = "batch"


@register("method", "align")
class Align(Source):
    """The source's parameters, adapted by the alignment of the reservoir only.

    It takes one forward pass per batch in inference mode, without gradients. Without
    ``reservoir.alignment`` it is the source model.
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
