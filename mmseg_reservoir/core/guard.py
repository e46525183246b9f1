"""Guard: one watcher per expert, which notices without labels that it goes wrong."""

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
from .reservoir_part import ReservoirPart, State
from .state import copied_to

_logger = logging.getLogger(__name__)
SOURCE_BATCHES = 64
"""Source batches that the model sees before the stream begins; more tell nothing new."""
_LEAST_SCALE = 1e-3  # from which an expert can come back
_EVENTS = 1000  # that are remembered; the counts go on
_FRAME = 5.0  # times the smallest margin: about what was measured on frames of two street scenes


class Guard(ReservoirPart):
    """Decides how far the updates of an expert can be trusted.

    The pipeline asks :meth:`is_due` for every batch that an expert adapted to, and, if so, lets the
    source model predict it, too, and expert and source its mirror image where the answer is a map:
    these forward passes are what a guard costs.
    """

    @abstractmethod
    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Learn from source batches, as the source model predicts them, what is usual."""

    @abstractmethod
    def is_due(self, index: int) -> bool:
        """Count a batch of an expert; whether the source's prediction of it is wanted."""

    @abstractmethod
    def judge(self, index: int, expert: ProbePair, source: ProbePair) -> float:
        """How much of an expert's way from the source to keep: 1 if nothing is wrong.

        Args:
            index: The expert.
            expert: Its prediction of a batch, before the update.
            source: The source model's prediction of the same batch.
        """

    @abstractmethod
    def scale(self, index: int) -> float:
        """The share of each of an expert's updates that is made, in [0, 1]."""

    @abstractmethod
    def forget(self, index: int) -> None:
        """An expert begins anew: what was known of it does not count any more."""

    def expert_state(self, index: int) -> dict[str, Any]:
        """Return ``alarms`` and ``trust`` of an expert, as far as they are known."""
        return {}

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """What was seen and done, as plain data."""


@register("guard", "labels")
class LabelGuard(Guard):
    """Compares the labels that an expert gives with those of the source model, at some batches.

    Averaged over an expert's probes, three things tell that it goes wrong:

    - *It loses classes*: the entropy of its labels' histogram is below that of the source's by
      more than ``margin``. A histogram of labels, unlike the mean of probabilities, does not change
      where a model only grows surer.
    - *It drifts*: it contradicts the source on more samples than the source itself expects to be
      wrong on, its doubt, the mean of ``1 - max_c p_c``: it cannot have been right to.
    - *It is overconfident*, where the answer is a map: a model that is as sure as it should be
      gives another label to a pixel of the mirror image about as often as it doubts (Jiang et
      al., ICLR 2022, of two models). An expert that doubts less must waver less, in proportion;
      it may waver by the share ``waver`` more often than that. (Of a batch of some fifty images
      this could not be told from chance, so there mirror images are not looked at.)

    Let ``e`` be the largest of them over its bound. At ``e > 1`` the expert keeps ``1 / (2 e)``
    of its way from the source, its step scale shrinks by the same factor, and it is probed again
    at its next batch. At a quiet probe the scale grows by the factor ``1 + 1 / a`` after ``a``
    alarms so far, up to 1 (who failed often is trusted later), and the interval to the next probe
    doubles, up to ``every``, or three times that where mirror images cost two passes more.

    Args:
        every: The largest number of an expert's batches for each forward pass of its guard.
        momentum: Of the averages over probes.
        margin: Bound of the loss of entropy, in nats. None: what chance explains. The entropy of
            the source model's labels varies between source batches; the margin is its standard
            deviation over the root of ``(1 + momentum) / (1 - momentum)``, as many batches as the
            averages stand for, but at least ``least``. Of maps it is the whole deviation: frames of
            a stay resemble each other, so that their average is no more certain than one of them,
            and mirror images tell the rest. Without source images: ``least``, of maps five times
            that.
        least: The smallest margin that is learned from the source.
        waver: Bound of wavering on mirror images beyond what the doubt explains.
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
        self._watches: dict[int, ExpertHealth] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._steps = 0

    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Measure the margin on source batches, unless it is given."""
        if self.margin is not None:
            return
        batches = islice(() if source is None else source, SOURCE_BATCHES)
        entropies, is_map = [], False
        for logits in map(predict, batches):
            entropies.append(entropy(histogram(logits)))
            is_map = logits.ndim > 2
        if len(entropies) < 2:
            _logger.warning(
                "the guard learns its margin from two source batches or more and has %d: it takes "
                "%.3f nats, or %.3f if the answer is a map (reservoir.guard.margin sets another)",
                len(entropies),
                self.least,
                _FRAME * self.least,
            )
            return
        averaged = 1.0 if is_map else (1 + self.momentum) / (1 - self.momentum)
        chance = float(torch.tensor(entropies).std()) / averaged**0.5
        self.margin = max(self.least, chance)
        _logger.info("guard: an expert may lose %.3f nats of diversity", self.margin)

    def is_due(self, index: int) -> bool:
        watch = self._watches.setdefault(index, ExpertHealth())
        self._steps += 1
        watch.batches += 1
        return watch.batches >= watch.next

    def judge(self, index: int, expert: ProbePair, source: ProbePair) -> float:
        if self.margin is None:  # no source image told
            self.margin = self.least * (1 if expert.mirrored is None else _FRAME)
        watch = self._watches[index]
        seen = [logits for logits in (*expert, *source) if logits is not None]
        if not all(torch.isfinite(logits).all() for logits in seen):
            return 1.0  # of such a batch nothing is learned; the next one is looked at
        watch.average(expert, source, self.momentum)
        signs = watch.signs(self.margin, self.waver)
        excess = max(signs.values())
        if not excess > 1:
            watch.scale = min(1.0, watch.scale * (1 + 1 / max(1, watch.alarms)))
            # One pass for the source's labels, two for mirror images.
            longest = self.every * (1 if expert.mirrored is None else 3)
            watch.interval = min(longest, 2 * watch.interval)
            watch.next = watch.batches + watch.interval
            return 1.0
        keep = 1 / (2 * excess)
        watch.scale = max(_LEAST_SCALE, watch.scale * keep)
        watch.alarms += 1
        watch.interval = 1
        watch.next = watch.batches + 1
        watch.pull_back(keep)
        event = {"step": self._steps, "expert": index, **signs}
        self._events.append({**event, "keep": keep, "scale": watch.scale})
        return keep

    def scale(self, index: int) -> float:
        watch = self._watches.get(index)
        return 1.0 if watch is None else watch.scale

    def forget(self, index: int) -> None:
        self._watches.pop(index, None)

    def expert_state(self, index: int) -> dict[str, Any]:
        watch = self._watches.get(index)
        return {} if watch is None else {"alarms": watch.alarms, "trust": watch.scale}

    def report(self) -> dict[str, Any]:
        names = ("batches", "probes", "alarms", "scale", "disagrees", "doubt")
        experts = {
            index: {name: getattr(watch, name) for name in names}
            for index, watch in sorted(self._watches.items())
        }
        return {"margin": self.margin, "experts": experts, "events": list(self._events)}

    def state_dict(self) -> State:
        count = 1 + max([*self._watches, *(event["expert"] for event in self._events)], default=-1)
        experts: list[State] = [{"health": None, "events": []} for _ in range(count)]
        for index, health in self._watches.items():
            experts[index]["health"] = dict(vars(health))
        for event in self._events:
            own = {name: value for name, value in event.items() if name != "expert"}
            experts[event["expert"]]["events"].append(own)
        return {"shared": {"margin": self.margin, "steps": self._steps}, "experts": experts}

    def load_state_dict(self, state: State) -> None:
        state = copied_to(state, torch.device("cpu"))
        self.margin, self._steps = state["shared"]["margin"], state["shared"]["steps"]
        known = {i: entry for i, entry in enumerate(state["experts"]) if entry is not None}
        self._watches = {i: ExpertHealth(**e["health"]) for i, e in known.items() if e["health"]}
        events = [
            {"step": event["step"], "expert": index, **event}
            for index, entry in known.items()
            for event in entry["events"]
        ]
        self._events = deque(sorted(events, key=lambda event: event["step"]), maxlen=_EVENTS)

    @classmethod
    def merge_shared(cls, options: State, one: State, other: State) -> State:
        return {**one, "steps": max(one["steps"], other["steps"])}

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        health = one["health"] or other["health"]
        # The merged expert has not been probed yet: it is, at its next batch.
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
