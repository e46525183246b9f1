"""No adaptation: the source model as it is, the first row of every table."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..core.params import ParamSpace
from .base import AdaptationMethod, Forward, OptimizerFactory, register_method

_UNUSED = partial(torch.optim.SGD, lr=0.0)


@register_method("source")
class Source(AdaptationMethod):
    """Predicts and never updates, so it needs no optimizer.

    BatchNorm normalises by the statistics of the source. With those of the batch instead
    (``batch_statistics=True``) it is the baseline that is known as BN or Norm.
    """

    batch_statistics = False

    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory = _UNUSED,
    ) -> None:
        super().__init__(forward, space, optimizer)

    @torch.no_grad()
    def loss(self, inputs: Tensor) -> tuple[Tensor, None]:
        """The prediction, and nothing to descend."""
        return self.forward(inputs), None
