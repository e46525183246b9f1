"""Guard: detects failing experts without labels."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..option_types import Count, Momentum, Positive
from ..registry import register
from .expert_health import ExpertHealth, ProbePair, entropy, histogram
from .reservoir_part import ReservoirPart, State, events_by_expert
from .state import copied_to

_logger = logging.getLogger(__name__)
SOURCE_BATCHES = 64
"""Largest number of source batches for the measurement of the margin."""
_LEAST_SCALE = 1e-3  # the smallest step scale, from which an expert can recover
_EVENTS = 1000  # the largest number of stored events; the counts continue
_MAP_MARGIN = 5.0  # margin of maps over the smallest margin, by frames of two street scenes


class Guard(ReservoirPart):
    """Base class of guards, which decide how much of an expert's updates to keep.

    The pipeline calls :meth:`is_due` after every update of an expert. If it returns True, the
    source model also predicts the batch, and :meth:`judge` compares both predictions. If these are
    maps, both models also predict the mirror image.
    """

    @abstractmethod
    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Measure normal values from the source model's predictions on source batches."""

    @abstractmethod
    def is_due(self, index: int) -> bool:
        """Count a batch of an expert; return whether it is probed."""

    @abstractmethod
    def judge(self, index: int, expert: ProbePair, source: ProbePair) -> float:
        """Return the factor to keep of an expert's distance from the source; 1 without an alarm.

        Args:
            index: Index of the expert.
            expert: Prediction of the expert for a batch, before the update.
            source: Prediction of the source model for the same batch.
        """

    @abstractmethod
    def scale(self, index: int) -> float:
        """Return the weight of an expert's updates, in [0, 1]."""

    @abstractmethod
    def forget(self, index: int) -> None:
        """Reset the record of an expert."""

    def expert_state(self, index: int) -> dict[str, Any]:
        """Return ``alarms`` and ``trust`` of an expert; empty without a record."""
        return {}

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Return the health of experts and the alarms, as plain data."""


@register("guard", "labels")
class LabelGuard(Guard):
    """Guard that compares the labels of an expert and the source model on some batches.

    Values are averaged over the probes of an expert. There are three alarms:

    - *Lost classes*: The entropy of the histogram of its labels is more than ``margin`` below that
      of the source model. Unlike the mean of probabilities, a histogram of labels does not change
      if a model only becomes more confident.
    - *Drift*: The fraction of samples on which it disagrees with the source model exceeds the
      source model's expected error, the mean of ``1 - max_c p_c``. So the expert is wrong on some
      samples.
    - *Overconfidence*, for maps only: In the mirror image, a calibrated model changes about as many
      labels as it expects errors (Jiang et al., ICLR 2022, for two models). So an expert that
      expects fewer errors than the source model must change proportionally fewer labels; ``waver``
      is the tolerance. Classifiers skip this, since some fifty images per batch are too few.

    Let ``e`` be the largest ratio of a value to its bound. If ``e > 1``, the expert keeps
    ``1 / (2 e)`` of its distance from the source. Its step scale shrinks by the same factor, and
    its next batch is probed. After a probe without an alarm, the scale grows by ``1 + 1 / a``, up
    to 1, with the number ``a`` of alarms so far. The interval to the next probe doubles, up to
    ``every`` batches. For maps it is up to three times that, since their probes take two more
    forward passes.

    Args:
        every: Largest number of an expert's batches per forward pass of its guard. Defaults to 16.
        momentum: Momentum of the averages over probes. Defaults to 0.8.
        margin: Largest loss of entropy without an alarm, in nats. Defaults to None: the standard
            deviation of the entropy between source batches, at least ``least``. It is divided by
            the root of ``(1 + momentum) / (1 - momentum)``, except for maps, since frames of a
            visit resemble each other. Without source images it is ``least``, and five times that
            for maps.
        least: Smallest measured margin, in nats. Defaults to 0.03.
        waver: Largest relative excess of the flip inconsistency over the expected one without an
            alarm. Defaults to 0.05.
    """

    def __init__(
        self,
        every: Count = 16,
        momentum: Momentum = 0.8,
        margin: Positive | None = None,
        least: Positive = 0.03,
        waver: Positive = 0.05,
    ) -> None:
        self.every = every
        self.momentum = momentum
        self.margin = margin
        self.least = least
        self.waver = waver
        self._health: dict[int, ExpertHealth] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._steps = 0

    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Measure the margin on source batches, unless it is set."""
        if self.margin is not None:
            return
        batches = islice(() if source is None else source, SOURCE_BATCHES)
        entropies, is_map = [], False
        for logits in map(predict, batches):
            entropies.append(entropy(histogram(logits)))
            is_map = logits.ndim > 2
        if len(entropies) < 2:
            _logger.warning(
                "the guard measures its margin on two or more source batches and has %d: it uses "
                "%.3f nats, or %.3f if the prediction is a map (set reservoir.guard.margin to "
                "change it)",
                len(entropies),
                self.least,
                _MAP_MARGIN * self.least,
            )
            return
        averaged = 1.0 if is_map else (1 + self.momentum) / (1 - self.momentum)
        chance = float(torch.tensor(entropies).std()) / averaged**0.5
        self.margin = max(self.least, chance)
        _logger.info("guard: an expert may lose %.3f nats of diversity", self.margin)

    def is_due(self, index: int) -> bool:
        health = self._health.setdefault(index, ExpertHealth())
        self._steps += 1
        health.batches += 1
        return health.batches >= health.next

    def judge(self, index: int, expert: ProbePair, source: ProbePair) -> float:
        if self.margin is None:  # without source images
            self.margin = self.least * (1 if expert.mirrored is None else _MAP_MARGIN)
        health = self._health[index]
        seen = [logits for logits in (*expert, *source) if logits is not None]
        if not all(torch.isfinite(logits).all() for logits in seen):
            return 1.0  # the next batch is probed instead
        health.average(expert, source, self.momentum)
        ratios = health.alarm_ratios(self.margin, self.waver)
        excess = max(ratios.values())
        if not excess > 1:
            health.scale = min(1.0, health.scale * (1 + 1 / max(1, health.alarms)))
            # One pass for the source's labels, two for mirror images.
            longest = self.every * (1 if expert.mirrored is None else 3)
            health.interval = min(longest, 2 * health.interval)
            health.next = health.batches + health.interval
            return 1.0
        keep = 1 / (2 * excess)
        health.scale = max(_LEAST_SCALE, health.scale * keep)
        health.alarms += 1
        health.interval = 1
        health.next = health.batches + 1
        health.pull_back(keep)
        event = {"step": self._steps, "expert": index, **ratios}
        self._events.append({**event, "keep": keep, "scale": health.scale})
        return keep

    def scale(self, index: int) -> float:
        health = self._health.get(index)
        return 1.0 if health is None else health.scale

    def forget(self, index: int) -> None:
        self._health.pop(index, None)

    def expert_state(self, index: int) -> dict[str, Any]:
        health = self._health.get(index)
        return {} if health is None else {"alarms": health.alarms, "trust": health.scale}

    def report(self) -> dict[str, Any]:
        def values(health: ExpertHealth) -> dict[str, Any]:
            names = ("batches", "probes", "alarms", "scale", "disagrees")
            return {n: getattr(health, n) for n in names} | {"doubt": health.expected_error}

        experts = {index: values(health) for index, health in sorted(self._health.items())}
        return {"margin": self.margin, "experts": experts, "events": list(self._events)}

    def state_dict(self) -> State:
        count = 1 + max([*self._health, *(event["expert"] for event in self._events)], default=-1)
        events = events_by_expert(self._events, count)
        experts: list[State] = [{"health": None, "events": own} for own in events]
        for index, health in self._health.items():
            experts[index]["health"] = dict(vars(health))
        return {"shared": {"margin": self.margin, "steps": self._steps}, "experts": experts}

    def load_state_dict(self, state: State) -> None:
        state = copied_to(state, torch.device("cpu"))
        self.margin, self._steps = state["shared"]["margin"], state["shared"]["steps"]
        entries = {i: entry for i, entry in enumerate(state["experts"]) if entry is not None}
        self._health = {i: ExpertHealth(**e["health"]) for i, e in entries.items() if e["health"]}
        events = [
            {"step": event["step"], "expert": index, **event}
            for index, entry in entries.items()
            for event in entry["events"]
        ]
        self._events = deque(sorted(events, key=lambda event: event["step"]), maxlen=_EVENTS)

    @classmethod
    def merge_shared(cls, options: State, one: State, other: State) -> State:
        return {**one, "steps": max(one["steps"], other["steps"])}

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        health = one["health"] or other["health"]
        # The merged expert has not been probed: probe its next batch.
        health = None if health is None else {**health, "next": 0}
        return {"health": health, "events": one["events"] + other["events"]}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        return {"steps": state["shared"]["steps"]}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        def newer(events: list[State]) -> list[State]:
            return [event for event in events if event["step"] > progress["steps"]]

        experts = [e and {**e, "events": newer(e["events"])} for e in state["experts"]]
        return {**state, "experts": experts}

    @classmethod
    def summary(cls, entry: State) -> State:
        health = entry["health"] or {}
        numbers = {name: x for name, x in health.items() if not isinstance(x, Tensor)}
        return {**numbers, "events": entry["events"]}
