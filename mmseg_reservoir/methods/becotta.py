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
    """Minimize the entropy of pixels with confident predictions.

    The low-rank experts and their gates adapt (``params.type = "becotta"``). All other parameters
    stay as after the warm-up, those of the domain discriminator included.

    - Loss: the mean entropy ``H(x)`` over pixels with ``H(x) < margin ln C`` (the entropy filter)
      and ``max_c p_0(c | x) > confidence``. ``p_0`` is the prediction of the warm-up model, which
      keeps updates from depending on adapted parameters only.
    - Optimizer: Adam with a learning rate of 6e-7 for SegFormer-B5.

    ``counts["pixels"]`` and ``counts["selected"]`` count all pixels and those in the loss. All
    domains share the warm-up parameters, ``self.source``.

    Args:
        margin: Largest entropy of a pixel, as a fraction of ``ln C``; ``inf`` for no filter.
            Defaults to 0.4, EATA's value.
        confidence: Smallest confidence of the warm-up model; 0 for no mask, which saves one pass.
            Defaults to 0.69, as the anchor's in ``cotta``; it is not tuned.
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
        # Computed first, since loading other parameters would break a later backward pass.
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
