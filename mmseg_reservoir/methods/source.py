"""No adaptation: the source model as it is, the first row of every table."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..options import register
from ..spaces.base import ParamSpace
from .base import AdaptationMethod, Forward, OptimizerFactory

_UNUSED = partial(torch.optim.SGD, lr=0.0)


@register("method", "source")
class Source(AdaptationMethod):
    """Predicts and never updates, so it needs no optimizer.

    BatchNorm normalises by the statistics of the source. With those of the batch instead it is the
    baseline :class:`Norm`.
    """

    statistics = "running"

    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory = _UNUSED,
    ) -> None:
        super().__init__(forward, space, optimizer)

    def loss(self, inputs: Tensor) -> tuple[Tensor, None]:
        """The prediction, and nothing to descend."""
        # Nothing needs a gradient, but statistics that follow the stream do so only beside one.
        with torch.set_grad_enabled(bool(self.space.followers)):
            return self.forward(inputs), None
