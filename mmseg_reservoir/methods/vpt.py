"""Visual prompts that adapt: the prompt tuning of DPCore (Zhang et al., ICML 2025) by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.losses import entropy
from ..errors import ReservoirError
from ..option_types import Count
from ..params.prompt import PromptSpace
from ..registry import register
from .base import AdaptationMethod


def statistics(features: Tensor) -> Tensor:
    """Mean and deviation of features ``(N, D)``, as the rows of ``(2, D)``.

    The deviation is the unbiased one; that of a single image is 0.
    """
    mean = features.mean(dim=0)
    return torch.stack([mean, features.std(dim=0) if len(features) > 1 else torch.zeros_like(mean)])


def discrepancy(one: Tensor, other: Tensor, std_weight: float = 1.0) -> Tensor:
    """``||mu - mu'|| + std_weight ||sigma - sigma'||`` of statistics ``(..., 2, D)``."""
    mean, std = (one - other).norm(dim=-1).unbind(dim=-1)
    return mean + std_weight * std


@register("method", "vpt")
class Vpt(AdaptationMethod):
    """Adapts prompts such that the features of a batch are distributed as those of the source.

    The ReservoirTTA paper's row "VPT+ReservoirTTA" is the prompt tuning that DPCore uses, with the
    reservoir in the place of DPCore's coreset. Its loss (DPCore, "Visual Prompt Adaptation") is

        ``||mu_S - mu(p)|| + std_weight ||sigma_S - sigma(p)||``

    with ``mu, sigma`` the mean and deviation over the batch of the feature that the classifier
    gets (the class token behind the last norm), seen with the prompts ``p``, and ``mu_S, sigma_S``
    those of a few source images, seen without any. :meth:`prepare` measures the latter; all
    domains share them. Needs ``params.type = "prompt"``.

    The prediction is that of the last pass, before its own step. How many steps that row takes for
    a new domain is not said; DPCore takes 50 for a new prompt and one for a known one. Its
    optimizer is AdamW with a learning rate of 0.1 and a weight decay of 1e-5.

    Args:
        loss: ``"alignment"``, as above, or ``"entropy"``, TENT's, which needs no source images.
        first_steps: Steps on the first batch of a domain; later ones get one. By default 50 for
            the alignment, and 1 for the entropy, which nothing anchors.
        std_weight: As above.
        source_images: From how many source images to take the statistics, if there are so many.
        **options: See :class:`AdaptationMethod`.
    """

    supports = ("images",)

    space: PromptSpace  # the constructor refuses others

    def __init__(
        self,
        *args: Any,
        loss: Literal["alignment", "entropy"] = "alignment",
        first_steps: Count | None = None,
        std_weight: float = 1.0,
        source_images: int = 300,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        if not isinstance(self.space, PromptSpace):
            raise ReservoirError(
                f"{type(self).__name__.lower()} adapts visual prompts: set params to "
                'dict(type="prompt", count=8), and take a vision transformer for the model'
            )
        self.aligns = loss == "alignment"
        self.first_steps = (50 if self.aligns else 1) if first_steps is None else first_steps
        self.std_weight = std_weight
        self.source_images = source_images
        self.source_statistics: Tensor | None = None
        self.counts["steps"] = 0

    @property
    def needs_source(self) -> bool:
        """The statistics to align with come from source images."""
        return self.aligns

    @torch.no_grad()
    def prepare(self, source: Iterable[Tensor]) -> None:
        """Measure the features of source images, without prompts."""
        if not self.aligns:
            return
        batches: list[Tensor] = []
        for inputs in source:
            batches.append(self._bare_features(inputs))
            if sum(map(len, batches)) >= self.source_images:
                break
        features = torch.cat(batches)[: self.source_images] if batches else torch.empty(0)
        if len(features) < 2:
            raise ReservoirError(
                f"the statistics of the source need at least 2 images, got {len(features)}: name "
                f"about {self.source_images} source images"
            )
        self.source_statistics = statistics(features)

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"batches": 0}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction, and the loss of the last step on this batch."""
        if self.state["batches"] == 0:
            self._learn(inputs, self.first_steps - 1)
        self.state["batches"] += 1
        return self._loss(inputs)

    def _learn(self, inputs: Tensor, steps: int) -> None:
        """Take steps on a batch, all but the last, which is everyone's."""
        for _ in range(steps):
            self.space.zero_grad()
            if not self.backward(self._loss(inputs)[1]):
                break
            self.move()
        self.space.zero_grad()

    def _loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        if not self.aligns:
            logits = self.forward(inputs)
            return logits, entropy(logits).mean()
        logits, features = self.space.features(self.forward, inputs)
        return logits, self._from_source(statistics(features))

    def _from_source(self, measured: Tensor) -> Tensor:
        """How far statistics are from those of the source."""
        if self.source_statistics is None:
            raise ReservoirError(
                f"{type(self).__name__.lower()} has no source statistics: give it source images "
                "(source=..., or prepare(source_batches) before the stream begins)"
            )
        return discrepancy(measured, self.source_statistics, self.std_weight)

    def _bare_features(self, inputs: Tensor) -> Tensor:
        with torch.no_grad(), self.space.hidden():
            return self.space.features(self.forward, inputs)[1]

    def move(self) -> None:
        """One step of the optimizer, counted: ``counts["updates"]`` counts batches."""
        super().move()
        self.counts["steps"] += 1

    def state_dict(self) -> dict[str, Any]:
        """The counts, and the source statistics, so that resuming needs no source images."""
        return super().state_dict() | {"source_statistics": self.source_statistics}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state["source_statistics"]
        self.source_statistics = None if saved is None else saved.to(self.source)
