"""The style memory: which of all styles seen so far are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..option_types import Count
from ..registry import checked, register


@checked
class StyleMemory(ABC):
    """At most M styles; what happens when it is full is the strategy.

    Args:
        capacity: M, the number of styles kept.
        per_expert: Give every one of the K experts an equal share of M, so that the memory grows
            with K, as in the published implementation: ``M // K_max * K``.
        k_max: The number of experts that share M.
        seed: Seed of the private random generator, so that nothing else can disturb it.
        source_styles: How many styles of the source it holds at the start.
    """

    def __init__(
        self,
        capacity: Count = 1024,
        per_expert: bool = False,
        k_max: Count = 16,
        seed: int = 0,
        source_styles: int = 0,
    ) -> None:
        if per_expert and capacity < k_max:
            raise ReservoirError(
                f"reservoir.memory.capacity must be at least k_max = {k_max}, got {capacity}"
            )
        self.capacity = capacity
        self.source_styles = source_styles
        self._share = capacity // k_max if per_expert else None
        self._generator = torch.Generator().manual_seed(seed)
        self.seen = 0
        self._rows: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def styles(self) -> Tensor | None:
        """The remembered styles, ``(n, d)``; None before the first."""
        return torch.stack(self._rows) if self._rows else None

    def with_current(self, style: Tensor) -> Tensor:
        """The remembered styles and, as the last row, the current one: ``(n + 1, d)``."""
        return torch.stack([*self._rows, style])

    def add(self, style: Tensor, assignments: Tensor) -> None:
        """Offer a style.

        Args:
            style: The style vector.
            assignments: Soft assignments ``(n + 1, K)`` of :meth:`with_current`.
        """
        k = assignments.shape[1]
        limit = self.capacity if self._share is None else min(self.capacity, self._share * k)
        if len(self) < limit:
            self._rows.append(style.clone())
        else:
            self._replace(style.clone(), assignments, limit)
        self.seen += 1

    def fill(self, styles: Tensor) -> None:
        """Begin with the first ``source_styles`` styles of the source, of ``(n, d)``."""
        for style in styles[: self.source_styles]:
            self.add(style, torch.ones(len(self) + 1, 1))

    @abstractmethod
    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        """What to do with a style when ``limit`` styles are kept already."""

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that the next step depends on."""
        generator = self._generator.get_state()
        return {"seen": self.seen, "rows": self.styles, "generator": generator}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, with the styles on the device of the state."""
        rows = [] if state["rows"] is None else list(state["rows"].clone())
        if len(rows) > self.capacity:
            raise ReservoirError(
                f"the saved style memory holds {len(rows)} styles, this one has room for "
                f"{self.capacity}: use the same capacity M"
            )
        self.seen = state["seen"]
        self._generator.set_state(state["generator"].cpu())
        self._rows = rows


@register("memory", "reservoir")
class ReservoirSampling(StyleMemory):
    """Vitter (1985): after t styles each one is kept with probability M / t, as in the paper."""

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        position = self._draw(self.seen + 1)
        if position < limit:
            self._rows[position] = style

    def _draw(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self._generator))


@register("memory", "published")
class PublishedReservoirSampling(ReservoirSampling):
    """Reservoir sampling as in the published code, which is biased towards new styles.

    It draws from the number of styles before this one. After 10 M styles it resets that number to
    M. So a new style is always kept with a probability of at least about 1/10.

    Args:
        draw: Replaces the random draws (``n -> 0 .. n - 1``), to follow a recorded run.
        **options: See :class:`StyleMemory`.
    """

    def __init__(
        self, *args: Any, draw: Callable[[int], int] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._recorded = draw

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        position = self._draw(self.seen)
        if position < limit:
            self._rows[position] = style
        if self.seen > 10 * limit:
            self.seen = limit

    def _draw(self, below: int) -> int:
        return super()._draw(below) if self._recorded is None else self._recorded(below)


@register("memory", "fifo")
class FirstInFirstOut(StyleMemory):
    """Keeps the newest styles."""

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        self._rows = [*self._rows[1:], style]


@register("memory", "replace")
class ReplaceWeakest(StyleMemory):
    """As published under the name "replace": a style replaces one of its cluster.

    Of the remembered styles, the n / K most typical of the cluster are looked at; the least typical
    of these gives way if it is no more typical than the new one.
    """

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        cluster = int(assignments[-1].argmax())
        typical = assignments[:-1, cluster]
        members = typical.argsort(descending=True)[: len(self) // assignments.shape[1]]
        weakest = int(members[-1])
        if typical[weakest] <= assignments[-1, cluster]:
            self._rows[weakest] = style


@register("memory", "none")
class NoMemory(StyleMemory):
    """Remembers nothing: centroids follow the current style alone (the ablation without SR)."""

    def add(self, style: Tensor, assignments: Tensor) -> None:
        self.seen += 1

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        raise AssertionError("a memory that keeps nothing is never full")


def join_memories(one: dict[str, Any], other: dict[str, Any], capacity: int) -> dict[str, Any]:
    """Return the state of a memory that holds the styles of two, each by what it has seen."""
    memories = one, other
    seen = one["seen"] + other["seen"]
    rows: list[list[Tensor]] = [[] if m["rows"] is None else list(m["rows"]) for m in memories]
    first = {tuple(row.tolist()) for row in rows[0]}
    rows[1] = [row for row in rows[1] if tuple(row.tolist()) not in first]
    if len(rows[0]) + len(rows[1]) > capacity:
        shares = [round(capacity * m["seen"] / seen) for m in memories]
        rows = [
            _thinned(mine, max(share, capacity - len(others)))
            for mine, others, share in zip(rows, reversed(rows), shares, strict=True)
        ]
    joined = [*rows[0], *rows[1]][:capacity]
    longer = max(memories, key=lambda memory: memory["seen"])
    return {**longer, "seen": seen, "rows": torch.stack(joined) if joined else None}


def _thinned(rows: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return so many of the rows, evenly spaced."""
    if len(rows) <= count:
        return list(rows)
    return [rows[i * len(rows) // count] for i in range(count)]
