"""Triggers, which select the batches that an expert adapts to; others are only predicted."""

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

_LONGER = 4  # length of the usual average over that of the recent one


@dataclass
class Record:
    """The record of a trigger for one expert.

    Args:
        batches: Number of batches routed to it.
        visits: Number of sequences of consecutive batches routed to it.
        rests: Number of batches that were only predicted.
        resting: Number of batches since its last update.
        seen: Number of predictions in the averages below.
        recent: Mean entropy of the last few predictions, in nats.
        usual: Mean entropy of more predictions, in nats.
        scatter: Mean square of the difference between a prediction's entropy and ``recent``.
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
    """Base class of triggers, which decide whether an expert adapts to a batch or rests.

    A resting expert predicts in one forward pass without gradients, and is not updated. The
    decision precedes the forward pass, so it only depends on earlier batches. Every expert adapts
    to its first batch.
    """

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._last: int | None = None
        self._counts = {"batches": 0, "rests": 0}

    def is_due(self, index: int) -> bool:
        """Count a batch of an expert, and return whether the expert adapts to it."""
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
        """Return whether an expert adapts to a counted batch, which is not its first."""

    def note(self, index: int, logits: Tensor) -> None:
        """Record the prediction of an expert for a batch, made before any update."""

    def forget(self, index: int) -> None:
        """Remove the record of a reset expert, which then adapts to its next batch."""
        self._records.pop(index, None)

    def report(self) -> dict[str, Any]:
        """Return the numbers of batches and rests, in total and by expert, as plain data."""
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
    """Trigger of every n-th batch of an expert, starting with the first.

    Args:
        n: Number of batches per update; 1 adapts to all. Defaults to 2.
    """

    def __init__(self, n: Count = 2) -> None:
        super().__init__()
        self.n = n

    def wants(self, record: Record) -> bool:
        return record.resting >= self.n - 1


@register("trigger", "first_visit")
class FirstVisitTrigger(Trigger):
    """Trigger of an expert's first visits; it rests afterwards.

    Args:
        visits: Number of visits with adaptation. A visit ends when a batch is routed to another
            expert. Defaults to 1.
        batches: Smallest number of batches to adapt to, also in later visits. Defaults to 1.
    """

    def __init__(self, visits: Count = 1, batches: Count = 1) -> None:
        super().__init__()
        self.visits = visits
        self.batches = batches

    def wants(self, record: Record) -> bool:
        return record.visits <= self.visits or record.batches <= self.batches


@register("trigger", "settled")
class SettledTrigger(Trigger):
    """Trigger that rests an expert while its loss only changes by chance.

    The loss is the mean entropy ``h`` of a prediction, which is also available when an expert
    rests. Each expert has three moving averages: ``recent``, of ``h`` over the last few batches;
    ``usual``, of ``h`` over four times as many; and ``scatter``, of ``(h - recent)^2``. The change,
    in standard deviations that chance causes in ``recent``, is

        ``z = (recent - usual) / sqrt(scatter (1 - momentum) / (1 + momentum))``

    If ``z < -threshold``, the loss falls, and updates help. If ``z > threshold``, the loss rises:
    the images have changed, or the expert fails. In both cases it adapts. Otherwise an update
    changes the loss less than the next frame does. The expert then rests, but adapts to one batch
    in ``probe``. So slow gains are not lost, and the guard, which only probes updates, still runs.

    Args:
        probe: Largest number of batches from one update to the next. Defaults to 12.
        first: Number of batches that an expert adapts to before it may rest. Defaults to 16.
        threshold: Largest change that chance explains, in standard deviations. Defaults to 2.
        momentum: Momentum of the recent average. Defaults to 0.8.
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
        # The first values have equal weights.
        slow, fast = (max(1 / record.seen, rate / longer) for longer in (_LONGER, 1))
        away = loss - record.recent if record.seen > 1 else 0.0
        record.scatter += slow * (away**2 - record.scatter)
        record.usual += slow * (loss - record.usual)
        record.recent += fast * (loss - record.recent)
