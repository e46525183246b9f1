"""VPT: the prompt tuning of DPCore (Zhang et al., ICML 2025) without its coreset."""

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
    """Return mean and unbiased deviation of features ``(N, D)``, as the rows of ``(2, D)``.

    The deviation of a single image is 0.
    """
    mean = features.mean(dim=0)
    return torch.stack([mean, features.std(dim=0) if len(features) > 1 else torch.zeros_like(mean)])


def discrepancy(one: Tensor, other: Tensor, std_weight: float = 1.0) -> Tensor:
    """Return ``||mu - mu'|| + std_weight ||sigma - sigma'||`` of statistics ``(..., 2, D)``."""
    mean, std = (one - other).norm(dim=-1).unbind(dim=-1)
    total: Tensor = mean + std_weight * std
    return total


@register("method", "vpt")
class Vpt(AdaptationMethod):
    """Align the features of a batch with those of the source, by prompts.

    With a reservoir, which replaces DPCore's coreset, this is the row "VPT+ReservoirTTA" of the
    ReservoirTTA paper. It needs ``params.type = "prompt"``.

    - Loss: ``||mu_S - mu(p)|| + std_weight ||sigma_S - sigma(p)||`` (DPCore, "Visual Prompt
      Adaptation"). ``mu, sigma`` are mean and deviation over the batch of the classifier's input
      feature, with the prompts ``p``. :meth:`prepare` measures ``mu_S, sigma_S`` on source images,
      without prompts; all domains share them.
    - Steps: DPCore takes 50 for a new prompt and one for an existing one. The ReservoirTTA paper
      does not state the steps for a new domain. The prediction is that of the last forward pass.
    - Optimizer: AdamW with a learning rate of 0.1 and a weight decay of 1e-5.

    Args:
        loss: Loss of the prompts: ``"alignment"``, as above, or ``"entropy"``, TENT's, which needs
            no source images. Defaults to ``"alignment"``.
        first_steps: Number of steps on the first batch of a domain; others get one. Defaults to 50
            for ``"alignment"``, and to 1 for ``"entropy"``, which has no anchor.
        std_weight: Weight of the deviations in the loss. Defaults to 1.
        source_images: Largest number of source images to measure. Defaults to 300.
        **options: See :class:`AdaptationMethod`.
    """

    supports = ("images",)
    shared_tensors = ("source_statistics",)

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
        """Return whether the loss needs the statistics of source images."""
        return self.aligns

    @torch.no_grad()
    def prepare(self, source: Iterable[Tensor]) -> None:
        """Measure the features of source images without prompts."""
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
                f"the statistics of the source need at least 2 images, got {len(features)}: give "
                f"about {self.source_images} source images"
            )
        self.source_statistics = statistics(features)

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"batches": 0}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        if self.state["batches"] == 0:
            self._learn(inputs, self.first_steps - 1)
        self.state["batches"] += 1
        return self._loss(inputs)

    def _learn(self, inputs: Tensor, steps: int) -> None:
        """Take all steps on a batch except the last one, which :meth:`adapt` takes."""
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
        return logits, self._source_discrepancy(statistics(features))

    def _source_discrepancy(self, measured: Tensor) -> Tensor:
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
        """Step the optimizer, and count the step."""
        super().move()
        self.counts["steps"] += 1
