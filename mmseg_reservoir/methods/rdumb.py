"""RDumb: a simple approach that questions our progress in continual TTA (Press et al., 2023)."""

from __future__ import annotations

from typing import Annotated, Any

from torch import Tensor

from ..option_types import Count
from ..registry import register
from .eta import Eta

ResetEvery = Annotated[Count, "a whole number of at least 1 (the method 'eta' never resets)"]


@register("method", "rdumb")
class RDumb(Eta):
    """ETA with a reset of parameters and state every ``reset_every`` batches (Sec. 4).

    Each domain counts its batches, with or without an update. ``counts["resets"]`` counts resets.

    Args:
        reset_every: Number of batches between resets. Defaults to 1000.
        **options: See :class:`Eta`.
    """

    needs_every_batch = "it counts batches up to its next reset"

    def __init__(self, *args: Any, reset_every: ResetEvery = 1000, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reset_every = reset_every
        self.counts["resets"] = 0

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"batches": 0}

    def adapt(self, inputs: Tensor) -> Tensor:
        prediction = super().adapt(inputs)
        self.state["batches"] += 1
        if self.state["batches"] == self.reset_every:
            self.reset()
            self.counts["resets"] += 1
        return prediction
