"""No adaptation: the source model, normalising by the source or by the batch: two baselines."""

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
    """Predicts and never updates, so it needs no optimizer: the first row of every table.

    BatchNorm normalises by the statistics of the source.
    """

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
    """The source model with the BatchNorm statistics of the batch, what all compare with.

    From "Improving robustness against common corruptions by covariate shift adaptation" (Schneider
    et al., NeurIPS 2020) and "Evaluating Prediction-Time Batch Normalization for Robustness under
    Covariate Shift" (Nado et al., 2020). The former's blend with the source's statistics is
    ``statistics=0.5``, for example; their weight ``N / (N + n)`` of a prior N is given as the share
    ``n / (N + n)`` of the batch. A model without BatchNorm is the source model.
    """

    statistics = "batch"
