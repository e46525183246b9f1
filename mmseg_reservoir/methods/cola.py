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
    """ETA that keeps what it learned of past domains, and learns how much of it to use.

    This is a single "principal agent" (the paper's "knowledge reprogramming learning"), the row
    "ETA+CoLA" of the ReservoirTTA paper. The model's parameters are

        ``theta = theta_source + sum_i softmax(a)_i v_i + u``

    with the domain knowledge vectors ``v_i``, one per past domain and ``v_0 = 0`` for the source,
    the learnable weights ``a`` and the new domain's own learnable part ``u``. The loss is ETA's.
    The optimizer steps ``u``; ``a`` follows its gradient.

    A batch whose stem features differ from those of the current domain by more than ``threshold``
    begins a new domain: what was learned, ``theta - theta_source``, becomes a vector, ``u`` begins
    at 0, optimizer and average prediction begin anew. They differ by the symmetric Kullback-Leibler
    divergence of Gaussians, averaged over channels; the domain's features follow its batches with
    ``stem_momentum``. ``counts["shifts"]`` counts the shifts.

    All of this belongs to the domain that a reservoir knows; without one there is one for the
    whole stream. What the paper's summary does not settle is this project's choice, not checked
    against its equations and experiments: the exact sum above, the measure of the shift, and the
    values of ``threshold``, ``stem_momentum``, ``alpha_lr`` and ``start``.

    Args:
        threshold: The largest divergence within a domain.
        stem_momentum: Of the moving average of a domain's stem features.
        alpha_lr: Learning rate of ``a``.
        start: What a new domain begins with: ``"uniform"``, the mean of all vectors, or
            ``"similarity"``, ``a_i = -divergence from domain i / temperature``: what the paper's
            "follower agents" do instead of learning. The source counts as ``threshold`` away.
        temperature: Of the latter.
        limit: The most vectors beside the source's; the oldest gives way. None: all are kept.
        **options: See :class:`Eta`.
    """

    needs_every_batch = "it looks at every batch for a shift of the domain"

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
            "stems": None,  # of the past domains, (M, 2, C): as many as vectors, less the source's
            "stem": None,  # of the current one
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
        """Let the optimizer step the domain's own part, and descend in the weights."""
        gradient = self.space.gradient.clone()
        super().step()
        vectors, alpha = self.state["vectors"], self.state["alpha"]
        # theta is linear in the weights w: dL/dw = V g, and the softmax's own slope follows.
        before = alpha.softmax(dim=0)
        slope = vectors @ gradient
        alpha = alpha - self.alpha_lr * before * (slope - before @ slope)
        change = (alpha.softmax(dim=0) - before) @ vectors
        self.space.load(self.space.values.detach() + change)
        self.state["alpha"] = alpha


class _Enough(Exception):
    """A hook's way to stop the model early: the rest of the forward pass is not needed."""


@torch.no_grad()
def stem_statistics(forward: Forward, inputs: Tensor) -> Tensor:
    """Mean and variance of every channel behind the first convolution, as rows of ``(2, C)``.

    That is the patch embedding of a vision transformer and the stem of a residual net. Of a model
    without a convolution, those of its inputs ``(N, C, *spatial)``. The rest of the model is not
    run.
    """
    seen: list[Tensor] = []

    def keep(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, nn.Conv2d):
            seen.append(output)
            raise _Enough

    # A hook on all modules, because a method knows the model only as a function.
    with register_module_forward_hook(keep), suppress(_Enough):
        forward(inputs)
    features = samples(seen[0] if seen else inputs)
    return torch.stack([features.mean(dim=0), features.var(dim=0, correction=0)])


def gaussian_divergence(one: Tensor, other: Tensor, smallest: float = 1e-6) -> Tensor:
    """``KL(p || q) + KL(q || p)`` of Gaussians, averaged over channels, of ``(..., 2, C)``.

    Args:
        one: Means and variances of p.
        other: Those of q.
        smallest: What a variance counts for at least: a covered lens has none.
    """
    (mean, var), (mean_, var_) = one.unbind(dim=-2), other.unbind(dim=-2)
    var, var_ = var.clamp_min(smallest), var_.clamp_min(smallest)
    apart = (mean - mean_).square()
    return ((var + apart) / var_ + (var_ + apart) / var - 2).mean(dim=-1) / 2
