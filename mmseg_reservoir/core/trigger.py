"""Trigger: which batches of an expert are worth an update; the others are only predicted."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from ..option_types import Count, Momentum, Positive
from ..registry import register
from .losses import entropy
from .reservoir_part import ReservoirPart, State

_LONGER = 4  # times the batches of the recent average are what is usual


@dataclass
class Record:
    """The counts and averages of a trigger for one expert.

    Args:
        batches: Number of its batches.
        visits: Number of uninterrupted runs of its batches.
        rests: Number of batches that were only predicted.
        resting: Number of these since the last update.
        seen: Number of predictions in the averages.
        recent: Average entropy of the last few predictions, in nats.
        usual: Average entropy of more of them.
        scatter: Mean squared difference of a prediction's entropy from ``recent``.
    """

    batches: int = 0
    visits: int = 0
    rests: int = 0
    resting: int = 0
    seen: int = 0
    recent: float = 0.0
    usual: float = 0.0
    scatter: float = 0.0


class Trigger(ReservoirPart):
    """Decides for every batch of an expert whether it adapts to it or rests.

    A resting expert predicts in one forward pass without gradients, and is not updated. The choice
    comes first, so that no pass runs twice. What is learned from a batch counts for the next one.
    Every expert adapts to its first batch.
    """

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._last: int | None = None
        self._counts = {"batches": 0, "rests": 0}

    def is_due(self, index: int) -> bool:
        """Count a batch of an expert; return whether the expert adapts to it."""
        record = self._records.setdefault(index, Record())
        record.batches += 1
        record.visits += index != self._last
        self._last = index
        due = record.batches == 1 or self.wants(record)
        record.resting = 0 if due else record.resting + 1
        record.rests += not due
        self._counts["batches"] += 1
        self._counts["rests"] += not due
        return due

    @abstractmethod
    def wants(self, record: Record) -> bool:
        """Return whether an expert adapts to a batch, which is counted and not its first."""

    def note(self, index: int, logits: Tensor) -> None:
        """Learn from the prediction of an expert before any update."""

    def forget(self, index: int) -> None:
        """Forget an expert that was reset; it adapts to its next batch."""
        self._records.pop(index, None)

    def report(self) -> dict[str, Any]:
        """Return how many batches were only predicted, in all and by expert, as plain data."""
        experts = {index: asdict(record) for index, record in sorted(self._records.items())}
        return {**self._counts, "experts": experts}

    def state_dict(self) -> State:
        experts: list[State | None] = [None] * (1 + max(self._records, default=-1))
        for index, record in self._records.items():
            experts[index] = asdict(record)
        stream = {"last": self._last, "counts": dict(self._counts)}
        return {"shared": {}, "experts": experts, "stream": stream}

    def load_state_dict(self, state: State) -> None:
        stream = state["stream"] or {"last": None, "counts": {"batches": 0, "rests": 0}}
        self._records = {i: Record(**own) for i, own in enumerate(state["experts"]) if own}
        self._last, self._counts = stream["last"], dict(stream["counts"])


@register("trigger", "every")
class EveryTrigger(Trigger):
    """An expert adapts to every n-th of its batches, the first one included.

    Args:
        n: 1 adapts to all.
    """

    def __init__(self, n: Count = 2) -> None:
        super().__init__()
        self.n = n

    def wants(self, record: Record) -> bool:
        return record.resting >= self.n - 1


@register("trigger", "first_visit")
class FirstVisitTrigger(Trigger):
    """An expert adapts during its first visits, then never again.

    Args:
        visits: Number of visits in which it adapts. One batch of another expert ends a visit.
        batches: Least number of batches that it adapts to, over all visits.
    """

    def __init__(self, visits: Count = 1, batches: Count = 1) -> None:
        super().__init__()
        self.visits = visits
        self.batches = batches

    def wants(self, record: Record) -> bool:
        return record.visits <= self.visits or record.batches <= self.batches


@register("trigger", "settled")
class SettledTrigger(Trigger):
    """An expert adapts as long as its loss changes by more than chance; then it has settled.

    The loss is the mean entropy ``h`` of a prediction. For each expert three moving averages are
    kept, whether it adapts or rests: ``recent`` of the last few batches, ``usual`` of four times as
    many, and ``scatter`` of ``(h - recent)^2``. The change of the loss, in standard deviations of
    ``recent``, is

        ``z = (recent - usual) / sqrt(scatter (1 - momentum) / (1 + momentum))``

    Beyond ``threshold`` in either direction the expert adapts. If the loss falls, updates pay. If
    it rises, the images are new to the expert, or it goes wrong. In between an update changes less
    than the next frame does by itself, so the expert rests. It still adapts to one batch in
    ``probe``: slow gains are kept, and a guard has updates to check.

    Args:
        probe: An expert rests at no more than ``probe - 1`` batches in a row.
        first: Number of batches that an expert adapts to before it may rest.
        threshold: Standard deviations that count as chance.
        momentum: Momentum of the recent average.
    """

    def __init__(
        self,
        probe: Count = 12,
        first: Count = 16,
        threshold: Positive = 2.0,
        momentum: Momentum = 0.8,
    ) -> None:
        super().__init__()
        self.probe = probe
        self.first = first
        self.momentum = momentum
        self.threshold = threshold

    def wants(self, record: Record) -> bool:
        young = record.batches <= self.first
        return young or record.resting >= self.probe - 1 or self._changes(record)

    def _changes(self, record: Record) -> bool:
        chance = record.scatter * (1 - self.momentum) / (1 + self.momentum)
        return (record.recent - record.usual) ** 2 > self.threshold**2 * chance

    def note(self, index: int, logits: Tensor) -> None:
        loss = float(entropy(logits).mean())
        if not math.isfinite(loss):
            return
        record = self._records[index]
        record.seen += 1
        rate = 1 - self.momentum
        # The first ones are averaged, so that none of them counts more than the others.
        slow, fast = (max(1 / record.seen, rate / longer) for longer in (_LONGER, 1))
        away = loss - record.recent if record.seen > 1 else 0.0
        record.scatter += slow * (away**2 - record.scatter)
        record.usual += slow * (loss - record.usual)
        record.recent += fast * (loss - record.recent)
