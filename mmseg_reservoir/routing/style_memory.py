"""Style memories, which store some of the styles seen so far."""

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
    """A memory of at most M styles. Subclasses decide which style to replace when it is full.

    Args:
        capacity: Largest number M of styles. Defaults to 1024.
        per_expert: Whether the limit grows with the number of experts K, as in the published
            implementation: ``M // K_max * K``. Defaults to False.
        k_max: Largest number of experts, K_max. Defaults to 16.
        seed: Seed of the memory's random generator. Defaults to 0.
        source_styles: Number of source styles stored at the start. Defaults to 0.
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
        """Return the remembered styles, ``(n, d)``; None before the first."""
        return torch.stack(self._rows) if self._rows else None

    def with_current(self, style: Tensor) -> Tensor:
        """Return the remembered styles with the current one as last row, ``(n + 1, d)``."""
        return torch.stack([*self._rows, style])

    def add(self, style: Tensor, assignments: Tensor) -> None:
        """Offer a style, which the memory may store.

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
        """Store the first ``source_styles`` of the source's styles ``(n, d)``."""
        for style in styles[: self.source_styles]:
            self.add(style, torch.ones(len(self) + 1, 1))

    @abstractmethod
    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        """Store or drop a style when the memory already holds ``limit`` styles."""

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that the next step depends on."""
        generator = self._generator.get_state()
        return {"seen": self.seen, "rows": self.styles, "generator": generator}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; the styles stay on their device in the state."""
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
    """Reservoir sampling, as in the paper: of t styles each is stored with probability M / t.

    See Vitter (1985).
    """

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
    M. So a new style is always stored with a probability of at least about 1/10.

    Args:
        draw: Function ``n -> 0 .. n - 1`` instead of random draws, to reproduce a recorded run.
            Defaults to None.
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
    """Memory of the newest styles."""

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        self._rows = [*self._rows[1:], style]


@register("memory", "replace")
class ReplaceWeakest(StyleMemory):
    """Memory in which a style replaces one of its cluster, as published ("replace").

    The candidate is the least typical of the n / K styles that are most typical of the cluster. It
    is replaced unless it is more typical than the new style.
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
    """Memory without styles: only the current style moves centroids (the ablation without SR)."""

    def add(self, style: Tensor, assignments: Tensor) -> None:
        self.seen += 1

    def _replace(self, style: Tensor, assignments: Tensor, limit: int) -> None:
        raise AssertionError("a memory that keeps nothing is never full")


def join_memories(one: dict[str, Any], other: dict[str, Any], capacity: int) -> dict[str, Any]:
    """Return the state of two merged memories, with shares by the number of styles seen."""
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
    """Return ``count`` of the rows, evenly spaced."""
    if len(rows) <= count:
        return list(rows)
    return [rows[i * len(rows) // count] for i in range(count)]
