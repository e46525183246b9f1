"""BECoTTA at test time: input-dependent online blending of experts (Lee et al., ICML 2024)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..core.losses import entropy
from ..option_types import Momentum, Positive
from ..registry import register
from .base import AdaptationMethod, samples


@register("method", "becotta")
class Becotta(AdaptationMethod):
    """Minimises the entropy of pixels that the warm-up model is sure of and this one not unsure.

    What adapts are the low-rank experts and their gates (``params.type = "becotta"``); the rest of
    the model, the domain discriminator included, stays as the warm-up left it. With ``H(x)`` the
    entropy of a pixel's prediction and ``p_0`` the prediction of the warm-up model, the loss is

        ``mean of H(x) over the pixels with H(x) < margin ln C and max_c p_0(c | x) > confidence``.

    The first condition is the entropy filter. The second keeps the update from following
    predictions that only the adapted parameters believe in. If no pixel passes, the batch gives no
    update (``counts["skipped"]``), since the mean over nothing is NaN. ``counts["pixels"]`` and
    ``counts["selected"]`` tell how many pixels came and passed.

    The warm-up parameters, ``self.source``, are shared by all domains; a domain owns its experts,
    gates and optimizer state. The optimizer is Adam with a learning rate of 6e-7 for SegFormer-B5.

    Args:
        margin: The largest share of the maximal entropy ``ln C`` that a pixel may have; 0.4 is
            EATA's. ``inf`` for no filter.
        confidence: What the warm-up model's largest probability must exceed; 0.69 is what the
            method ``cotta`` asks of its anchor, and is not tuned. 0 for no mask, which saves the
            pass through the warm-up model.
        **options: See :class:`AdaptationMethod`.
    """

    supports = ("pixels",)
    filter_options = ("margin", "confidence")

    def __init__(
        self, *args: Any, margin: Positive = 0.4, confidence: Momentum = 0.69, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.margin = margin
        self.confidence = confidence
        self.counts |= {"pixels": 0, "selected": 0}

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        # First, so that the parameters of the pass with gradients are untouched until backward.
        trusted: Tensor | bool = True
        if self.confidence:
            with self.space.at(self.source):
                p = samples(self.predict(inputs)).softmax(dim=1)
            trusted = p.amax(dim=1) > self.confidence
        prediction = self.forward(inputs)
        entropies = entropy(samples(prediction))
        chosen = (entropies.detach() < self.margin * math.log(prediction.shape[1])) & trusted
        self.counts["pixels"] += chosen.numel()
        self.counts["selected"] += int(torch.count_nonzero(chosen))
        if not chosen.any():
            return prediction, None
        return prediction, entropies[chosen].mean()
