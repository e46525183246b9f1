"""CoLA: cross-device collaborative test-time adaptation (Chen et al., NeurIPS 2024), one device."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ..option_types import Count, NonNegative, Positive
from ..registry import register
from .base import Forward, moving_average, samples
from .eta import Eta


@register("method", "cola")
class Cola(Eta):
    """ETA that reuses the parameter changes of past domains, with learned weights.

    This is the row "ETA+CoLA" of the ReservoirTTA paper: a single "principal agent" ("knowledge
    reprogramming learning").

    - Parameters: ``theta = theta_source + sum_i softmax(a)_i v_i + u``. There is one vector ``v_i``
      per past domain, and ``v_0 = 0`` for the source. ``u`` is the part of the current domain.
    - Loss: ETA's. The optimizer steps ``u``; ``a`` descends with the rate ``alpha_lr``.
    - Shift: the divergence of a batch's stem features from the current domain's is above
      ``threshold``. It is the symmetric Kullback-Leibler divergence of Gaussians, averaged over
      channels. Then ``theta - theta_source`` becomes a vector, and ``u``, optimizer and average
      prediction are reset. ``counts["shifts"]`` counts shifts.

    Each domain of a reservoir has separate values. The exact sum, the divergence, and the defaults
    of ``threshold``, ``stem_momentum``, ``alpha_lr`` and ``start`` are this project's choices. They
    are not checked against the paper's equations and experiments.

    Args:
        threshold: Largest divergence within a domain. Defaults to 0.1.
        stem_momentum: Weight of the old value in the moving average of stem features. Defaults to
            0.8.
        alpha_lr: Learning rate of ``a``. Defaults to 0.1.
        start: Initial ``a`` of a new domain: ``"uniform"``, 0, or ``"similarity"``, ``-divergence
            from domain i / temperature`` (the paper's "follower agents"), with ``threshold`` as the
            divergence from the source. Defaults to ``"uniform"``.
        temperature: Temperature of ``"similarity"``. Defaults to 0.1.
        limit: The largest number of vectors of past domains; the oldest is dropped. Defaults to
            None, no limit.
        **options: See :class:`Eta`.
    """

    needs_every_batch = "it checks every batch for a shift of the domain"

    def __init__(
        self,
        *args: Any,
        threshold: NonNegative = 0.1,
        stem_momentum: float = 0.8,
        alpha_lr: float = 0.1,
        start: Literal["uniform", "similarity"] = "uniform",
        temperature: Positive = 0.1,
        limit: Count | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.threshold = threshold
        self.stem_momentum = stem_momentum
        self.alpha_lr = alpha_lr
        self.by_similarity = start == "similarity"
        self.temperature = temperature
        self.limit = limit
        self.counts["shifts"] = 0

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {
            "vectors": torch.zeros_like(self.source)[None],
            "alpha": self.source.new_zeros(1),
            "stems": None,  # of the past domains, (M, 2, C), with one vector each
            "stem": None,  # of the current domain
        }

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        stem = stem_statistics(self.forward, inputs)
        if torch.isfinite(stem).all():
            average = self.state["stem"]
            if average is not None and gaussian_divergence(average, stem) > self.threshold:
                self._begin_domain(stem)
                average = None
            self.state["stem"] = moving_average(average, stem, self.stem_momentum)
        return super().loss(inputs)

    def _begin_domain(self, stem: Tensor) -> None:
        state = self.state
        learned = (self.space.snapshot() - self.source)[None]
        vectors, stems = torch.cat([state["vectors"], learned]), state["stem"][None]
        if state["stems"] is not None:
            stems = torch.cat([state["stems"], stems])
        if self.limit is not None and len(stems) > self.limit:
            vectors, stems = torch.cat([vectors[:1], vectors[2:]]), stems[1:]
        alpha = vectors.new_zeros(len(vectors))
        if self.by_similarity:
            divergences = gaussian_divergence(stems, stem).to(alpha)
            alpha = -torch.cat([alpha[:1] + self.threshold, divergences]) / self.temperature
        state |= {"vectors": vectors, "stems": stems, "alpha": alpha, "mean_prediction": None}
        self.reset_optimizer(state)
        self.space.load(self.source + alpha.softmax(dim=0) @ vectors)
        self.counts["shifts"] += 1

    def step(self) -> None:
        """Step the current domain's part, and descend the loss in the weights."""
        gradient = self.space.gradient.clone()
        super().step()
        vectors, alpha = self.state["vectors"], self.state["alpha"]
        # theta is linear in the weights w: dL/dw = V g, times the derivative of the softmax.
        before = alpha.softmax(dim=0)
        slope = vectors @ gradient
        alpha = alpha - self.alpha_lr * before * (slope - before @ slope)
        change = (alpha.softmax(dim=0) - before) @ vectors
        self.space.load(self.space.values.detach() + change)
        self.state["alpha"] = alpha


class _Enough(Exception):
    """Exception of a hook that skips the rest of a forward pass."""


@torch.no_grad()
def stem_statistics(forward: Forward, inputs: Tensor) -> Tensor:
    """Return mean and variance per channel after the first convolution, as rows of ``(2, C)``.

    This convolution is the patch embedding of a vision transformer or the stem of a residual net.
    Without any convolution, the statistics are those of the inputs ``(N, C, *spatial)``.
    """
    seen: list[Tensor] = []

    def keep(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, nn.Conv2d):
            seen.append(output)
            raise _Enough

    # A hook on all modules, since a method only has the forward function.
    with register_module_forward_hook(keep), suppress(_Enough):
        forward(inputs)
    features = samples(seen[0] if seen else inputs)
    return torch.stack([features.mean(dim=0), features.var(dim=0, correction=0)])


def gaussian_divergence(one: Tensor, other: Tensor, smallest: float = 1e-6) -> Tensor:
    """Return ``KL(p || q) + KL(q || p)`` of Gaussians, averaged over channels.

    Both have means and variances ``(..., 2, C)``; these are clamped, since a variance may be 0.
    """
    (mean, var), (mean_, var_) = one.unbind(dim=-2), other.unbind(dim=-2)
    var, var_ = var.clamp_min(smallest), var_.clamp_min(smallest)
    square = (mean - mean_).square()
    return ((var + square) / var_ + (var_ + square) / var - 2).mean(dim=-1) / 2
