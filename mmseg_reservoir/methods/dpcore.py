"""DPCore: dynamic prompt coreset for continual test-time adaptation (Zhang et al., ICML 2025)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ..option_types import Count, Fraction, Positive
from ..registry import register
from .vpt import Vpt, discrepancy, statistics


@register("method", "dpcore")
class DPCore(Vpt):
    """Prompt tuning with a coreset: prompts, each with the statistics of its batches.

    Let ``d`` be the discrepancy of :class:`Vpt`, and ``G``, ``G(p)`` and ``G_S`` the statistics of
    a batch without prompts, with prompts, and of the source. For every batch ("Dynamic Update"):

    1. Weights ``w_j = softmax_j(-d(G, G_j) / temperature)`` over the elements ``(G_j, p_j)`` give
       the prompt ``p = sum_j w_j p_j``.
    2. If ``d(G_S, G(p)) <= ratio d(G_S, G)``, the prompt is reused. One step from ``p`` leads to
       ``p'``, and all elements move to ``(G, p')``: ``G_j += alpha w_j (G - G_j)``, likewise
       ``p_j``. ``counts["reused"]`` counts these batches.
    3. Otherwise a new prompt is learned from scratch, in ``first_steps`` steps, and becomes an
       element ``(G, p')``. ``counts["learned"]`` counts these batches.

    The optimizer is reset for every batch. Each domain has a coreset. :meth:`predict` uses the
    prompt of the last batch.

    Args:
        temperature: Temperature of the weights (tau). Defaults to 3.
        ratio: Threshold for reusing a prompt (rho). Defaults to 0.8.
        alpha: Step of an element of weight 1 towards the new value. Defaults to 0.999.
        limit: Largest number of elements; a full coreset reuses its prompts for every batch.
            Defaults to None, no limit, as published.
        loss: Loss of the prompts; only ``"alignment"`` is supported.
        **options: See :class:`Vpt`; ``std_weight`` is the paper's lambda.
    """

    needs_every_batch = "it composes a prompt for every batch"

    def __init__(
        self,
        *args: Any,
        temperature: Positive = 3.0,
        ratio: float = 0.8,
        alpha: Fraction = 0.999,
        limit: Count | None = None,
        loss: Literal["alignment"] = "alignment",
        **options: Any,
    ) -> None:
        super().__init__(*args, loss=loss, **options)
        self.temperature = temperature
        self.ratio = ratio
        self.alpha = alpha
        self.limit = limit
        self.counts |= {"learned": 0, "reused": 0}

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"statistics": None, "prompts": None}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        self.state["batches"] += 1
        self.reset_optimizer(self.state)
        self._seen = statistics(self._bare_features(inputs))
        before = self._source_discrepancy(self._seen)
        self._weights: Tensor | None = None
        if self.state["prompts"] is not None:
            distances = discrepancy(self._seen, self.state["statistics"], self.std_weight)
            self._weights = (-distances / self.temperature).softmax(dim=0)
            self.space.load(self._weights @ self.state["prompts"])
            logits, loss = self._loss(inputs)
            if loss <= self.ratio * before or len(self._weights) == self.limit:
                return logits, loss
            self._weights = None
        self.space.load(self.source)
        self._learn(inputs, self.first_steps - 1)
        return self._loss(inputs)

    def step(self) -> None:
        """Step, and update the coreset."""
        super().step()
        weights = self._weights
        self.counts["learned" if weights is None else "reused"] += 1
        for name, value in {"statistics": self._seen, "prompts": self.space.snapshot()}.items():
            elements = self.state[name]
            if weights is not None:
                share = self.alpha * weights.view(-1, *[1] * value.ndim)
                self.state[name] = elements + share * (value - elements)
            elif elements is None:
                self.state[name] = value[None]
            else:
                self.state[name] = torch.cat([elements, value[None]])
