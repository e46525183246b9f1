"""ROID*: universal test-time adaptation (Marsden et al., WACV 2024), without consistency loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ..core.losses import entropy
from ..registry import register
from .base import AdaptationMethod, moving_average, samples

_LARGEST_P = 0.99  # keeps the likelihood ratio p / (1 - p) finite
_TINY = 1e-5  # keeps the logarithm of a vanishing ratio finite


@register("method", "roid")
class Roid(AdaptationMethod):
    """Soft likelihood ratio loss on weighted samples, with weight ensembling.

    From "Universal Test-time Adaptation through Weight Ensembling, Diversity Weighting, and Prior
    Correction". ReservoirTTA's ROID* omits the consistency loss of augmented views.

    - Loss: ``-sum_c p_c log(p_c / (1 - p_c))``. Unlike the entropy's, its gradient does not vanish
      for confident samples.
    - Sample weights: ``exp(w_div w_cert / temperature)``. ``w_cert`` is the negative entropy,
      ``w_div`` the distance from the moving average of predictions, both scaled to [0, 1] over the
      batch. Samples below the mean diversity are left out.
    - Weight ensembling: ``theta <- alpha theta + (1 - alpha) theta_source`` after every step (Eq. 5
      of the ReservoirTTA paper).
    - Prior correction: see :meth:`correct`.

    Each domain has its moving average, which starts uniform.

    Args:
        alpha: Weight of the adapted parameters against the source's. Defaults to 0.99.
        temperature: Temperature of the sample weights. Defaults to 1/3.
        momentum: Weight of the old value in the moving average. Defaults to 0.9.
        prior_correction: Whether to correct predictions by the class frequencies. Defaults to
            False.
        batch_size: Divisor of the sum over samples. The published code uses the configured batch
            size, also for an incomplete batch. Defaults to the number of samples.
        **options: See :class:`AdaptationMethod`.
    """

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.99,
        temperature: float = 1 / 3,
        momentum: float = 0.9,
        prior_correction: bool = False,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.alpha = alpha
        self.temperature = temperature
        self.momentum = momentum
        self.prior_correction = prior_correction
        self.batch_size = batch_size

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"mean_prediction": None}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        prediction = self.forward(inputs)
        logits = samples(prediction)
        p = logits.softmax(dim=1)
        average = self.state["mean_prediction"]
        if average is None:
            average = torch.full_like(p[0], 1 / p.shape[1])
        diversity = unit_range(1 - cosine_similarity(average[None], p.detach(), dim=1))
        certainty = unit_range(-entropy(logits.detach()))
        weights = (diversity * certainty / self.temperature).exp()
        weights = weights * (diversity >= diversity.mean())
        loss = (weights * soft_likelihood_ratio(p)).sum() / (self.batch_size or len(p))
        if torch.isfinite(loss):  # keeps broken batches out of the average
            self.state["mean_prediction"] = moving_average(average, p.mean(dim=0), self.momentum)
        return prediction, loss

    def step(self) -> None:
        """Step, then average the parameters with the source's."""
        super().step()
        self.space.load(torch.lerp(self.source, self.space.values.detach(), self.alpha))

    def correct(self, logits: Tensor) -> Tensor:
        """Multiply logits by the smoothed class frequencies of the batch, as published.

        The frequencies are ``(pi + s) / (1 + C s)`` with the mean softmax ``pi`` of the S samples
        and ``s = max(1/S, 1/C) / max(pi)``.
        """
        if not self.prior_correction:
            return logits
        p = samples(logits).softmax(dim=1)
        count, classes = p.shape
        prior = p.mean(dim=0)
        smoothing = max(1 / count, 1 / classes) / prior.max()
        prior = (prior + smoothing) / (1 + classes * smoothing)
        return logits * prior.view(-1, *[1] * (logits.ndim - 2))


def soft_likelihood_ratio(p: Tensor) -> Tensor:
    """Return ``-sum_c p_c log(p_c / (1 - p_c))`` of every row of ``(S, C)`` probabilities."""
    p = p.clamp(max=_LARGEST_P)
    return -(p * torch.log(p / (1 - p) + _TINY)).sum(dim=1)


def unit_range(values: Tensor) -> Tensor:
    """Scale values to [0, 1]; equal values become 0."""
    spread = values.max() - values.min()
    return (values - values.min()) / torch.where(spread > 0, spread, 1)
