"""The style memory: a bounded, unbiased sample of all styles seen so far."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError


class StyleMemory:
    """Reservoir sampling (Vitter, 1985): after t styles each one is kept with probability M / t.

    Args:
        capacity: M, the number of styles kept.
        seed: Seed of the private random generator, so that nothing else can disturb it.
    """

    def __init__(self, capacity: int = 1024, seed: int = 0) -> None:
        if capacity < 1:
            raise ReservoirError(f"the style memory needs a capacity M >= 1, got {capacity}")
        self.capacity = capacity
        self.seen = 0
        self._generator = torch.Generator().manual_seed(seed)
        self._rows: Tensor | None = None

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def with_current(self, style: Tensor) -> Tensor:
        """The remembered styles and, as the last row, the current one: ``(n + 1, d)``."""
        if self._rows is None:
            return style[None]
        return torch.cat([self._rows[: len(self)], style[None]])

    def add(self, style: Tensor) -> None:
        """Offer a style to the sample."""
        if self._rows is None:
            self._rows = style.new_empty(self.capacity, style.numel())
        self.seen += 1
        if self.seen <= self.capacity:
            self._rows[self.seen - 1] = style
            return
        position = int(torch.randint(self.seen, (), generator=self._generator))
        if position < self.capacity:
            self._rows[position] = style

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""
        rows = None if self._rows is None else self._rows[: len(self)].clone()
        return {"seen": self.seen, "rows": rows, "generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        rows = state["rows"]
        if rows is not None and len(rows) > self.capacity:
            raise ReservoirError(
                f"the saved style memory holds {len(rows)} styles, this one has room for "
                f"{self.capacity}: use the same capacity M"
            )
        self.seen = state["seen"]
        self._generator.set_state(state["generator"])
        self._rows = None
        if rows is not None:
            self._rows = rows.new_empty(self.capacity, rows.shape[1])
            self._rows[: len(rows)] = rows
