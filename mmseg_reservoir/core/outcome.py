"""The result of a batch, which record, report and live page read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from .losses import entropy, marginal_entropy
from .route import Route

NO_PREDICTION = torch.empty(0)
"""The logits of a batch without a prediction."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a pipeline for one batch.

    Args:
        logits: The prediction.
        route: The expert of the batch.
        k: Number of experts after the batch.
        work: Names of the stages that ran, as in `AdaptationPipeline.stages`, one entry per run.
            Defaults to one update.
        style: Style vector of the batch; None if no router needed one.
        stage_seconds: Seconds of the stages ``style`` and ``route``. Defaults to 0 for both.
        seconds: Seconds of the whole batch; None if not measured.
        handled: Result for a stream with a frame rate: ``"adapted"``, ``"rested"`` (in time, but
            only predicted), ``"answered"`` or ``"dropped"`` (both missed).
    """

    logits: Tensor
    route: Route
    k: int
    work: tuple[str, ...] = ("adapt",)
    style: Tensor | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=lambda: {"style": 0.0, "route": 0.0})
    seconds: float | None = None
    handled: Literal["adapted", "rested", "answered", "dropped"] | None = None

    @property
    def expert(self) -> int:
        """Return the index of the expert of the batch."""
        return self.route.index

    @property
    def weight(self) -> float:
        """Return the weight of that expert in the prediction."""
        return float(self.route.weights[self.route.index])

    @property
    def opened(self) -> bool:
        """Return whether the batch opened a domain, which makes the expert new."""
        return bool(self.route.is_new)

    def entropies(self, per_image: bool = False) -> list[tuple[float | None, float | None]]:
        """Return uncertainty and diversity of the prediction, in nats, in one transfer.

        Args:
            per_image: Whether to return a pair per image. Defaults to False, a pair of the batch.

        Returns:
            Pairs of the mean entropy of the samples (pixels or images), and the entropy of their
            mean distribution. A number that is not finite is None.
        """
        logits = self.logits.detach().float()
        groups = logits.split(1) if per_image else [logits]
        pairs = [torch.stack([entropy(g).mean(), marginal_entropy(g)]) for g in groups]
        return [(_finite(one), _finite(other)) for one, other in torch.stack(pairs).tolist()]

    def to_json(self, images: int | None = None) -> list[dict[str, Any]]:
        """Return the entries of ``results.json`` about the route.

        Args:
            images: Number of images of the batch, with an entry for each. Defaults to None, one
                entry of the batch.
        """
        pairs: list[tuple[float | None, float | None]] = [(None, None)] * (images or 1)
        if self.logits.numel():
            pairs = self.entropies(per_image=images is not None)
        entry = {
            "expert": self.expert,
            "k": self.k,
            "weight": self.weight,
            "route_entropy": self.route.entropy,
            "opened": self.opened,
            "seconds": None if self.seconds is None else self.seconds / len(self.logits),
        }
        handled = {} if self.handled is None else {"handled": self.handled}
        return [{**entry, "entropy": one, "marginal_entropy": two, **handled} for one, two in pairs]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


NOT_ADAPTING = Outcome(
    NO_PREDICTION, Route(0, torch.ones(1), is_new=False), k=1, work=(), stage_seconds={}
)
"""The outcome of a model that does not adapt."""
