"""What a guard knows of one expert: how its answers compare with those of the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

_LITTLE = 1e-6  # instead of no doubt at all


class ProbePair(NamedTuple):
    """What one set of parameters says of a batch: logits ``(N, C, *spatial)``.

    Of its mirror image, too, where labels are a map: turned back, so that pixels are in place.
    """

    plain: Tensor
    mirrored: Tensor | None = None


@dataclass
class ExpertHealth:
    """What a `LabelGuard` knows of one expert; from ``labels`` on, moving averages."""

    batches: int = 0
    next: int = 1
    interval: int = 1
    scale: float = 1.0
    probes: int = 0
    alarms: int = 0
    labels: Tensor = field(default_factory=lambda: torch.zeros(()))
    source_labels: Tensor = field(default_factory=lambda: torch.zeros(()))
    disagrees: float = 0.0
    doubt: float = 0.0
    own_doubt: float = 0.0
    wavers: float = 0.0
    source_wavers: float = 0.0

    def average(self, expert: ProbePair, source: ProbePair, momentum: float) -> None:
        """Note what both said at a probe."""
        self.probes += 1
        # The first probes are averaged, so that none of them counts more than the others.
        rate = max(1 / self.probes, 1 - momentum)
        new = {
            "labels": histogram(expert.plain),
            "source_labels": histogram(source.plain),
            "disagrees": _differ(expert.plain, source.plain),
            "doubt": _doubt(source.plain),
            "own_doubt": _doubt(expert.plain),
        }
        if expert.mirrored is not None and source.mirrored is not None:
            new["wavers"] = _differ(expert.plain, expert.mirrored)
            new["source_wavers"] = _differ(source.plain, source.mirrored)
        for name, value in new.items():
            old = getattr(self, name)
            setattr(self, name, old + rate * (value - old))

    def signs(self, margin: float, waver: float) -> dict[str, float]:
        """What speaks against the expert, each over its bound: above 1 it goes wrong."""
        signs = {
            "lost": (entropy(self.source_labels) - entropy(self.labels)) / margin,
            "drift": self.disagrees / max(self.doubt, _LITTLE),
        }
        if self.source_wavers:
            fair = self.source_wavers / max(self.doubt, _LITTLE) * self.own_doubt
            signs["overconfident"] = (self.wavers / max(fair, _LITTLE) - 1) / waver
        return signs

    def pull_back(self, keep: float) -> None:
        """Expect of an expert that goes back to the source what is between both."""
        self.labels = torch.lerp(self.source_labels, self.labels, keep)
        self.disagrees *= keep
        self.own_doubt = self.doubt + keep * (self.own_doubt - self.doubt)
        self.wavers = self.source_wavers + keep * (self.wavers - self.source_wavers)


def _differ(logits: Tensor, others: Tensor) -> float:
    """The share of samples with another label."""
    return float((logits.argmax(1) != others.argmax(1)).float().mean())


def _doubt(logits: Tensor) -> float:
    """The share of wrong labels that a model expects of itself: the mean of ``1 - max_c p_c``."""
    return float(1 - logits.softmax(1).amax(1).mean())


def histogram(logits: Tensor) -> Tensor:
    """The share of each class among the labels of all samples, ``(C,)``, on the CPU."""
    labels = logits.argmax(dim=1).flatten()
    return (torch.bincount(labels, minlength=logits.shape[1]) / labels.numel()).cpu()


def entropy(shares: Tensor) -> float:
    """Of a distribution, in nats."""
    return float(torch.special.entr(shares).sum())
