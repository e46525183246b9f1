"""The option ``statistics``: what BatchNorm normalizes by."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from torch import nn

from ..errors import ReservoirError
from ..registry import suggest
from .normalisation import blend, use_batch_statistics

_logger = logging.getLogger(__name__)
_NAMED = {"running": 0.0, "batch": 1.0}


def read_batch_share(value: Any, default: str) -> float:
    """Return the share of the batch in the statistics, from what a user writes.

    Args:
        value: ``"running"`` (a share of 0: the source's statistics), ``"batch"`` (a share of 1, as
            TENT does for classifiers), the share itself, or None for the default.
        default: ``"running"`` or ``"batch"``.
    """
    value = default if value is None else value
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value]
    if isinstance(value, Mapping) and "per_expert" in value:
        raise ReservoirError(
            f"statistics={dict(value)}: the option per_expert was removed. Write "
            'statistics="running" and reservoir=dict(preset="robust"): its alignment keeps the '
            "statistics of every expert. For a fixed share of the batch write a number, such as "
            "statistics=0.1"
        )
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        names = suggest(value, _NAMED)
        raise ReservoirError(
            f"statistics cannot be {value!r}{names}, or the share of the batch as a number from 0 "
            "to 1"
        )
    if not 0 <= value <= 1:
        raise ReservoirError(f"statistics: the share of the batch must be in [0, 1], got {value}")
    return float(value)


def set_batch_share(model: nn.Module, share: float) -> None:
    """Make every BatchNorm of a model normalize by ``(1 - share) running + share batch``.

    Call it before the parameters are selected: a blend replaces the layers.

    Args:
        model: The model, whose running statistics are those of the source.
        share: The share of the batch in mean and variance. With 0 the model stays as it is.
    """
    if share == 1:
        use_batch_statistics(model)
    elif share and not blend(model, share):
        _logger.warning("%s has no BatchNorm: statistics change nothing", type(model).__name__)
