"""ETA: entropy minimization on reliable, non-redundant samples (Niu et al., ICML 2022)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ..core.losses import entropy
from ..registry import register
from .base import AdaptationMethod, moving_average, samples
from .common.by_classes import by_classes


@register("method", "eta")
class Eta(AdaptationMethod):
    """EATA without its regularizer: minimize the entropy of reliable, non-redundant samples.

    From "Efficient Test-Time Model Adaptation without Forgetting". A sample x is an image or a
    pixel.

    - Reliable: ``H(x) < E_0`` (Eq. 3). ``counts["reliable"]`` counts these samples.
    - Non-redundant: ``cos(p(x), m) < d_margin`` (Eq. 4). ``counts["selected"]`` counts the samples
      that pass both filters.
    - Loss: the mean of ``exp(E_0 - H(x)) H(x)`` over the selected samples (Eq. 2, 3, 6).
    - ``m``: the moving average of their predictions (Eq. 5), one per domain. It starts at the mean
      of the first reliable samples.

    Args:
        margin: ``E_0 / ln C``, the largest reliable entropy as a fraction of the maximum. Defaults
            to 0.4.
        d_margin: The largest similarity to ``m``: 0.05 for ImageNet-C, 0.4 for CIFAR-10-C in the
            paper. Defaults to the value for the number of classes (:func:`by_classes`).
        momentum: Weight of the old value in the moving average. Defaults to 0.9.
        **options: See :class:`AdaptationMethod`.
    """

    filter_options = ("d_margin", "margin")

    def __init__(
        self,
        *args: Any,
        margin: float = 0.4,
        d_margin: float | None = None,
        momentum: float = 0.9,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.margin = margin
        self.d_margin = d_margin
        self.momentum = momentum
        self.counts |= {"reliable": 0, "selected": 0}

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"mean_prediction": None}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        prediction = self.forward(inputs)
        logits = samples(prediction)
        entropies = entropy(logits)
        classes = logits.shape[1]
        limit = self.margin * math.log(classes)
        if self.d_margin is None:
            self.d_margin = by_classes("d_margin", classes)

        p = logits.detach().softmax(dim=1)
        reliable = chosen = entropies.detach() < limit
        average = self.state["mean_prediction"]
        if average is not None:
            chosen = reliable & (cosine_similarity(average[None], p, dim=1) < self.d_margin)
        self.counts["reliable"] += int(torch.count_nonzero(reliable))
        self.counts["selected"] += int(torch.count_nonzero(chosen))
        if not chosen.any():
            return prediction, None
        now = p[chosen].mean(dim=0)
        self.state["mean_prediction"] = moving_average(average, now, self.momentum)
        entropies = entropies[chosen]
        weights = (limit - entropies.detach()).exp()
        return prediction, (weights * entropies).mean()
