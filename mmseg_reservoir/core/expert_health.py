"""The health of one expert, by comparison with the source model's predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

_SMALLEST = 1e-6  # lower bound of the expected error


class ProbePair(NamedTuple):
    """The logits ``(N, C, *spatial)`` of a batch and, for maps, those of its mirror image.

    The latter are flipped back, so that pixels correspond.
    """

    plain: Tensor
    mirrored: Tensor | None = None


@dataclass
class ExpertHealth:
    """The record of a `LabelGuard` for one expert. ``labels`` and later fields are averages.

    Args:
        batches: Number of batches.
        next: Number of the batch with the next probe.
        interval: Batches between two probes.
        scale: Weight of the expert's updates.
        probes: Number of probes.
        alarms: Number of alarms.
        labels: Histogram of the expert's labels.
        source_labels: Histogram of the source model's labels.
        disagrees: Fraction of samples with different labels of both.
        expected_error: Fraction of wrong labels by the source model's probabilities.
        own_expected_error: Fraction of wrong labels by the expert's probabilities.
        flip_inconsistency: Fraction of the expert's pixels with another label in the mirror image.
        source_flip_inconsistency: The same for the source model.
    """

    batches: int = 0
    next: int = 1
    interval: int = 1
    scale: float = 1.0
    probes: int = 0
    alarms: int = 0
    labels: Tensor = field(default_factory=lambda: torch.zeros(()))
    source_labels: Tensor = field(default_factory=lambda: torch.zeros(()))
    disagrees: float = 0.0
    expected_error: float = 0.0
    own_expected_error: float = 0.0
    flip_inconsistency: float = 0.0
    source_flip_inconsistency: float = 0.0

    def average(self, expert: ProbePair, source: ProbePair, momentum: float) -> None:
        """Add a probe to the averages."""
        self.probes += 1
        # The first probes have equal weights.
        rate = max(1 / self.probes, 1 - momentum)
        new = {
            "labels": histogram(expert.plain),
            "source_labels": histogram(source.plain),
            "disagrees": _disagreement(expert.plain, source.plain),
            "expected_error": _expected_error(source.plain),
            "own_expected_error": _expected_error(expert.plain),
        }
        if expert.mirrored is not None and source.mirrored is not None:
            new["flip_inconsistency"] = _disagreement(expert.plain, expert.mirrored)
            new["source_flip_inconsistency"] = _disagreement(source.plain, source.mirrored)
        for name, value in new.items():
            old = getattr(self, name)
            setattr(self, name, old + rate * (value - old))

    def alarm_ratios(self, margin: float, waver: float) -> dict[str, float]:
        """Return the value of each alarm divided by its bound; above 1 there is an alarm.

        Args:
            margin: Largest loss of entropy, in nats.
            waver: Largest relative excess of the flip inconsistency over the expected one.
        """
        error = max(self.expected_error, _SMALLEST)
        ratios = {
            "lost": (entropy(self.source_labels) - entropy(self.labels)) / margin,
            "drift": self.disagrees / error,
        }
        if self.source_flip_inconsistency:
            fair = self.source_flip_inconsistency / error * self.own_expected_error
            ratios["overconfident"] = (self.flip_inconsistency / max(fair, _SMALLEST) - 1) / waver
        return ratios

    def pull_back(self, keep: float) -> None:
        """Move the averages towards the source's: keep this fraction of the difference."""
        self.labels = torch.lerp(self.source_labels, self.labels, keep)
        self.disagrees *= keep
        error, flips = self.expected_error, self.source_flip_inconsistency
        self.own_expected_error = error + keep * (self.own_expected_error - error)
        self.flip_inconsistency = flips + keep * (self.flip_inconsistency - flips)


def _disagreement(logits: Tensor, others: Tensor) -> float:
    """Return the fraction of samples with different labels."""
    return float((logits.argmax(1) != others.argmax(1)).float().mean())


def _expected_error(logits: Tensor) -> float:
    """Return the mean of ``1 - max_c p_c``."""
    return float(1 - logits.softmax(1).amax(1).mean())


def histogram(logits: Tensor) -> Tensor:
    """Return the fraction of each class in the labels of all samples, ``(C,)``, on the CPU."""
    labels = logits.argmax(dim=1).flatten()
    return (torch.bincount(labels, minlength=logits.shape[1]) / labels.numel()).cpu()


def entropy(distribution: Tensor) -> float:
    """Return the entropy of a distribution, in nats."""
    return float(torch.special.entr(distribution).sum())
