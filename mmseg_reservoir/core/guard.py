"""Guard: one watcher per expert, which notices without labels that it goes wrong."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import register
from .state import copied_to

_logger = logging.getLogger(__name__)
_BATCHES = 64  # of the source, for the spread; more tell nothing new
_LEAST_SCALE = 1e-3  # from which an expert can come back
_EVENTS = 1000  # that are remembered; the counts go on


class Guard(ABC):
    """Decides how far the updates of an expert can be trusted.

    The pipeline asks :meth:`is_due` for every batch that an expert adapted to, and lets the source
    model predict it, too, if so: that forward pass is what a guard costs.
    """

    @abstractmethod
    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Learn from source batches, as the source model predicts them, what is usual."""

    @abstractmethod
    def is_due(self, index: int) -> bool:
        """Count a batch of an expert; whether the source's prediction of it is wanted."""

    @abstractmethod
    def judge(self, index: int, expert: Tensor, source: Tensor) -> float:
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
    def report(self) -> dict[str, Any]:
        """What was seen and done, as plain data."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""


@dataclass
class Watch:
    """What a `LabelGuard` knows of one expert; the last four are moving averages."""

    batches: int = 0
    next: int = 1
    interval: int = 1
    scale: float = 1.0
    probes: int = 0
    alarms: int = 0
    labels: Tensor | None = None
    source_labels: Tensor | None = None
    disagrees: float = 0.0
    doubt: float = 0.0


@register("guard", "labels")
class LabelGuard(Guard):
    """Compares the labels that an expert gives with those of the source model, at some batches.

    Averaged over an expert's probes, two things tell that it goes wrong:

    - *It loses classes*: the entropy of its labels' histogram is below that of the source's by
      more than ``margin``. A histogram of labels, unlike the mean of probabilities, does not change
      where a model only grows surer.
    - *It drifts*: it contradicts the source on more samples than the source itself expects to be
      wrong on, the mean of ``1 - max_c p_c``: it cannot have been right to.

    Let ``e`` be the larger of the two over its bound. At ``e > 1`` the expert keeps ``1 / (2 e)``
    of its way from the source, its step scale shrinks by the same factor, and it is probed again
    at its next batch. At a quiet probe the scale grows by the factor ``1 + 1 / a`` after ``a``
    alarms so far, up to 1 (who failed often is trusted later), and the interval to the next probe
    doubles, up to ``every``.

    Args:
        every: The largest number of an expert's batches between two probes.
        momentum: Of the averages over probes.
        margin: Bound of the loss of entropy, in nats. None: what chance explains. The entropy of
            the source model's labels varies between source batches; the margin is its standard
            deviation over the root of ``(1 + momentum) / (1 - momentum)``, as many batches as the
            averages stand for, but at least ``least``, which it also is without source images.
        least: The smallest margin that is learned from the source.
    """

    def __init__(
        self,
        every: int = 16,
        momentum: float = 0.8,
        margin: float | None = None,
        least: float = 0.03,
    ) -> None:
        if every < 1 or not 0 <= momentum < 1 or least <= 0:
            raise ReservoirError(
                "a guard needs every >= 1, momentum in [0, 1) and least > 0, got "
                f"{every}, {momentum}, {least}"
            )
        if margin is not None and margin <= 0:
            raise ReservoirError(f"the margin of a guard must be above 0 nats, got {margin}")
        self.every = every
        self.momentum = momentum
        self.margin = margin
        self.least = least
        self._watches: dict[int, Watch] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._steps = 0

    def prepare(self, predict: Callable[[Tensor], Tensor], source: Iterable[Tensor] | None) -> None:
        """Measure the margin on source batches, unless it is given."""
        if self.margin is not None:
            return
        batches = islice(() if source is None else source, _BATCHES)
        entropies = [_entropy(_histogram(predict(inputs))) for inputs in batches]
        if len(entropies) < 2:
            self.margin = self.least
            _logger.warning(
                "the guard learns its margin from two source batches or more and has %d: it takes "
                "the smallest, %.3f nats (reservoir.guard.margin sets another)",
                len(entropies),
                self.margin,
            )
            return
        averaged = (1 + self.momentum) / (1 - self.momentum)
        chance = float(torch.tensor(entropies).std()) / averaged**0.5
        self.margin = max(self.least, chance)
        _logger.info("guard: an expert may lose %.3f nats of diversity", self.margin)

    def is_due(self, index: int) -> bool:
        watch = self._watches.setdefault(index, Watch())
        self._steps += 1
        watch.batches += 1
        return watch.batches >= watch.next

    def judge(self, index: int, expert: Tensor, source: Tensor) -> float:
        assert self.margin is not None, "prepare() comes first"
        watch = self._watches[index]
        if not (torch.isfinite(expert).all() and torch.isfinite(source).all()):
            return 1.0  # of such a batch nothing is learned; the next one is looked at
        watch.probes += 1
        # The first probes are averaged, so that none of them counts more than the others.
        rate = max(1 / watch.probes, 1 - self.momentum)
        labels, source_labels = _histogram(expert), _histogram(source)
        watch.labels = labels if watch.labels is None else watch.labels.lerp(labels, rate)
        before = watch.source_labels
        watch.source_labels = source_labels if before is None else before.lerp(source_labels, rate)
        contradicts = (expert.argmax(1) != source.argmax(1)).float().mean()
        watch.disagrees += rate * (float(contradicts) - watch.disagrees)
        watch.doubt += rate * (float(1 - source.softmax(1).amax(1).mean()) - watch.doubt)

        lost = _entropy(watch.source_labels) - _entropy(watch.labels)
        excess = max(lost / self.margin, watch.disagrees / max(watch.doubt, 1e-6))
        if not excess > 1:
            watch.scale = min(1.0, watch.scale * (1 + 1 / max(1, watch.alarms)))
            watch.interval = min(self.every, 2 * watch.interval)
            watch.next = watch.batches + watch.interval
            return 1.0
        keep = 1 / (2 * excess)
        watch.scale = max(_LEAST_SCALE, watch.scale * keep)
        watch.alarms += 1
        watch.interval = 1
        watch.next = watch.batches + 1
        watch.labels = torch.lerp(watch.source_labels, watch.labels, keep)
        watch.disagrees *= keep
        event = {"step": self._steps, "expert": index, "lost": lost, "excess": excess}
        self._events.append({**event, "keep": keep, "scale": watch.scale})
        return keep

    def scale(self, index: int) -> float:
        watch = self._watches.get(index)
        return 1.0 if watch is None else watch.scale

    def report(self) -> dict[str, Any]:
        names = ("batches", "probes", "alarms", "scale", "disagrees", "doubt")
        experts = {
            index: {name: getattr(watch, name) for name in names}
            for index, watch in sorted(self._watches.items())
        }
        return {"margin": self.margin, "experts": experts, "events": list(self._events)}

    def state_dict(self) -> dict[str, Any]:
        watches = {str(index): dict(vars(watch)) for index, watch in self._watches.items()}
        events = [dict(event) for event in self._events]
        return {"margin": self.margin, "steps": self._steps, "watches": watches, "events": events}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = copied_to(state, torch.device("cpu"))
        self.margin, self._steps = state["margin"], state["steps"]
        self._watches = {int(index): Watch(**watch) for index, watch in state["watches"].items()}
        self._events = deque(state["events"], maxlen=_EVENTS)


def _histogram(logits: Tensor) -> Tensor:
    """The share of each class among the labels of all samples, ``(C,)``, on the CPU."""
    labels = logits.argmax(dim=1).flatten()
    return (torch.bincount(labels, minlength=logits.shape[1]) / labels.numel()).cpu()


def _entropy(shares: Tensor) -> float:
    return float(torch.special.entr(shares).sum())
