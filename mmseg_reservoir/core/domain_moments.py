"""The feature moments of one expert's domain, and the depth of their use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

REACHES = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Levels of the reach. 0: no alignment. 2: half strength at the last layer."""
SETTLE = 8
"""Batches of a trial before it is judged, in which its moments adapt to its reach."""
PROBES = 4
"""Batches on which a trial is judged."""
_START = REACHES.index(0.5)
_FIRST_TRIAL = 10  # batches of an expert before its first trial
_AGAIN = 1000  # batches between two resets of the refused levels
_TRIAL_WINDOW = 5  # window of a trial's moments in batches, short so that they adapt in time
_HARM = 0.03  # smallest gain of a smaller reach, so that chance does not decide


@dataclass
class DomainMoments:
    """The moments of one expert's domain, and the depth of their use.

    An expert starts with a reach of 0.5. From its tenth batch on it tries the next larger reach,
    and, if that is refused, the next smaller one. A trial has separate moments, since those of deep
    layers depend on the correction of earlier ones. It learns them for eight batches. Its mean gain
    on the next four decides. The gain is the increase in the fraction of pixels that keep their
    label in the mirror image, plus 0.15 times the decrease in entropy (nats). A trial never changes
    predictions.

    Args:
        mean: Mean of every channel, averaged over images.
        logvar: Log-variance of every channel, averaged over images.
        images: Number of images learned from.
        batches: Number of batches learned from.
        level: Index of the reach in ``REACHES``. Defaults to that of 0.5.
        refused: Levels excluded from trials; cleared every 1000 batches.
        gains: Gains of a trial, one per judged batch.
        trial: Moments of the current trial; None without one.
        window: Window of the moments, in batches. Defaults to 0, the alignment's.
    """

    mean: Tensor
    logvar: Tensor
    images: int = 0
    batches: int = 0
    level: int = _START
    refused: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    trial: DomainMoments | None = None
    window: int = 0

    @property
    def reach(self) -> float:
        """Return the depth at which the strength is 0, as a fraction of the layers."""
        return REACHES[self.level]

    def weight_of(self, images: int, window: int) -> float:
        """Return the weight of a new batch: its fraction of all images, at least 1 / window."""
        return max(images / (self.images + images), 1 / (self.window or window))

    def count(self, images: int) -> None:
        """Count a batch that was learned from."""
        self.images += images
        self.batches += 1

    def learn(self, mean: Tensor, logvar: Tensor, images: int, window: int) -> None:
        """Learn from the moments of a batch of images, and count it."""
        weight = self.weight_of(images, window)
        self.mean.lerp_(mean, weight)
        self.logvar.lerp_(logvar, weight)
        self.count(images)

    def start_trial(self) -> DomainMoments | None:
        """Return the current trial of another reach, or start one; None if none is due."""
        if self.batches % _AGAIN == 0:
            self.refused = []
        if self.trial is None and self.batches >= _FIRST_TRIAL:
            ways = [self.level + 1, self.level - 1]
            untried = [n for n in ways if 0 <= n < len(REACHES) and n not in self.refused]
            if untried:
                own = self.mean.clone(), self.logvar.clone(), self.images
                self.trial = DomainMoments(*own, level=untried[0], window=_TRIAL_WINDOW)
        return self.trial

    def end_trial(self) -> bool:
        """End a judged trial; return whether its reach is accepted."""
        trial, self.trial = self.trial, None
        assert trial is not None
        gain = sum(trial.gains) / len(trial.gains)
        if gain <= (0 if trial.level > self.level else _HARM):
            self.refused = [*self.refused, trial.level]
            return False
        self.refused = [*self.refused, self.level]
        self.mean, self.logvar, self.level = trial.mean, trial.logvar, trial.level
        return True

    def merged(self, other: DomainMoments, weight: float) -> DomainMoments:
        """Return the moments of all images of two experts of one domain.

        The reach and the refused levels are this expert's.

        Args:
            other: Moments of the other expert.
            weight: Weight of the other expert, its fraction of all images.
        """
        return DomainMoments(
            torch.lerp(self.mean, other.mean, weight),
            torch.lerp(self.logvar, other.logvar, weight),
            self.images + other.images,
            self.batches + other.batches,
            self.level,
            list(self.refused),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all values as plain data."""
        trial = None if self.trial is None else self.trial.state_dict()
        return {**vars(self), "trial": trial}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> DomainMoments:
        """Return the moments from their :meth:`state_dict`."""
        trial = None if state["trial"] is None else cls.of(state["trial"])
        return cls(**{**state, "trial": trial})
