"""What BatchNorm normalises by, as an option: the source's statistics, the batch's, or a blend."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from ..errors import ReservoirError
from ..options import construct, suggest
from .normalisation import (
    BlendedBatchNorm,
    blend,
    carry_statistics,
    layers_of,
    use_batch_statistics,
)

if TYPE_CHECKING:
    from .base import ParamSpace

_logger = logging.getLogger(__name__)
_NAMED = {"running": 0.0, "batch": 1.0}


@dataclass(frozen=True)
class Statistics:
    """What the BatchNorm layers of a model normalise by, in every pass.

    Mean and variance are ``(1 - share) running + share batch``, where ``running`` are at first
    those of the source. The layers are prepared before the parameters are selected, and the space
    is told afterwards::

        statistics = Statistics.of(wish, default="batch")
        statistics.apply(model)
        space = ParamSpace(model, norm_affine(model))
        statistics.carry(space)

    Args:
        share: Of the batch. 0: the running statistics of the source, as the model comes. 1: those
            of the batch, as TENT does for classifiers.
        per_expert: Let the running statistics follow the stream: a batch that a method adapts to
            moves them to the blend. They are then a part of the expert, as its parameters are;
            a pass that only predicts never moves them. Needs a share between 0 and 1.
    """

    share: float = 0.0
    per_expert: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ReservoirError(
                f"statistics: the share of the batch must be in [0, 1], got {self.share}"
            )
        if self.per_expert and self.share in (0, 1):
            raise ReservoirError(
                "statistics: those of an expert follow the stream by the share of a batch, which "
                f"must be above 0 and below 1, got {self.share}: take 0.1, or leave out per_expert"
            )

    @classmethod
    def of(cls, value: Any, default: str) -> Statistics:
        """Read what a user writes.

        Args:
            value: ``"running"``, ``"batch"``, the share of the batch as a number,
                ``dict(share=..., per_expert=...)``, or None for the default.
            default: ``"running"`` or ``"batch"``.
        """
        value = default if value is None else value
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value in _NAMED:
            return cls(_NAMED[value])
        if isinstance(value, Mapping):
            return construct(cls, value, "statistics")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls(float(value))
        names = suggest(value, _NAMED)
        raise ReservoirError(
            f"statistics cannot be {value!r}{names}, the share of the batch as a number from 0 to "
            "1, or dict(share=..., per_expert=True)"
        )

    def apply(self, model: nn.Module) -> None:
        """Prepare the BatchNorm layers of a model; to be called before its space is made."""
        if self.share == 1:
            use_batch_statistics(model)
        elif self.share and not blend(model, self.share):
            _logger.warning("%s has no BatchNorm: statistics change nothing", type(model).__name__)

    def carry(self, space: ParamSpace) -> None:
        """Make an expert's own statistics part of a space; before an optimizer holds it."""
        if self.per_expert:
            layers = layers_of(space.model, BlendedBatchNorm)
            carry_statistics(space, layers)
            space.followers += layers.values()
