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
    """A coreset of prompts, each with the statistics of the batches that it is for.

    ``d`` is the discrepancy of :class:`Vpt`; ``G`` are the statistics of a batch, seen without
    prompts, ``G(p)`` with prompts, ``G_S`` those of the source. For every batch (the paper's
    "Dynamic Update"):

    1. Weights ``w_j = softmax_j(-d(G, G_j) / temperature)`` over the elements ``(G_j, p_j)``, and
       the weighted prompt ``p = sum_j w_j p_j``.
    2. If it helps, ``d(G_S, G(p)) <= ratio d(G_S, G)``, the domain is known: one step from ``p``
       leads to ``p'``, and every element goes to ``(G, p')``, by its weight:
       ``G_j += alpha w_j (G - G_j)``, and ``p_j`` in the same way.
    3. Otherwise it is new: a prompt is learned from scratch, in ``first_steps`` steps, and becomes
       an element ``(G, p')``.

    The optimizer begins anew with every batch, as every batch begins at another prompt. The
    coreset belongs to the domain; without a reservoir there is one for the whole stream.
    ``counts["learned"]`` and ``counts["reused"]`` count the two cases. What :meth:`predict` uses is
    the prompt of the last batch.

    Args:
        temperature: Of the weights (the paper's tau).
        ratio: Threshold between known and new (the paper's rho).
        alpha: How far an element of weight 1 goes to the new value.
        limit: The most elements; a full coreset takes every batch for known. None, as published:
            it grows with the stream.
        loss: There is but one, that of :class:`Vpt`.
        **options: See :class:`Vpt`. ``first_steps`` are those for a new prompt, and ``std_weight``
            is the paper's lambda.
    """

    needs_every_batch = "it makes up a prompt for every batch"

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
        """The prediction, and the discrepancy before the last step on this batch."""
        self.state["batches"] += 1
        self.reset_optimizer(self.state)
        self._seen = statistics(self._bare_features(inputs))
        before = self._from_source(self._seen)
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
        """Let the optimizer step, and remember what came out."""
        super().step()
        weights = self._weights
        self.counts["learned" if weights is None else "reused"] += 1
        for name, value in {"statistics": self._seen, "prompts": self.space.snapshot()}.items():
            there = self.state[name]
            if weights is not None:
                share = self.alpha * weights.view(-1, *[1] * value.ndim)
                self.state[name] = there + share * (value - there)
            else:
                self.state[name] = value[None] if there is None else torch.cat([there, value[None]])
