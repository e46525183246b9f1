"""SAR: sharpness-aware and reliable entropy minimization (Niu et al., ICLR 2023)."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from ..core.losses import entropy
from ..registry import register
from .base import AdaptationMethod, moving_average, samples


@register("method", "sar")
class Sar(AdaptationMethod):
    """Minimize the entropy of reliable samples and its sharpness.

    From "Towards Stable Test-Time Adaptation in Dynamic Wild World". The optimizer is SGD with
    momentum 0.9.

    - Samples: reliable if ``H < E_0`` (Eq. 2).
    - Ascent: to the worst point nearby, ``theta + rho g / ||g||``, with the gradient ``g`` of the
      mean entropy at ``theta`` (Eq. 4 and 5).
    - Step: at ``theta``, along the gradient at that point, of samples still reliable (Eq. 6).
    - Reset: to the source, if the moving average of the second loss is below ``reset_below``
      ("model recovery"). ``counts["resets"]`` counts the resets.

    Each domain has a moving average and the optimizer's momentum, which a reset clears.

    Args:
        margin: ``E_0 / ln C``, the largest reliable entropy as a fraction of the maximum. Defaults
            to 0.4.
        rho: Radius of the neighborhood. Defaults to 0.05.
        reset_below: Loss (e_m) below which the model is reset. Defaults to 0.2.
        momentum: Weight of the old value in the moving average of the loss. Defaults to 0.9.
        published_momentum: Whether all domains share the optimizer's state, and resets keep it, as
            in the published implementation of ReservoirTTA. Defaults to False.
        **options: See :class:`AdaptationMethod`.
    """

    filter_options = ("margin",)

    def __init__(
        self,
        *args: Any,
        margin: float = 0.4,
        rho: float = 0.05,
        reset_below: float = 0.2,
        momentum: float = 0.9,
        published_momentum: bool = False,
        **options: Any,
    ) -> None:
        self.published_momentum = published_momentum  # before the first state is made
        super().__init__(*args, **options)
        self.margin = margin
        self.rho = rho
        self.reset_below = reset_below
        self.momentum = momentum
        self.counts["resets"] = 0

    def fresh_domain_state(self) -> dict[str, Any]:
        state = super().fresh_domain_state() | {"loss": None}
        if self.published_momentum:
            state["optimizer"] = self.optimizer.state[self.space.values]
        return state

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        if self.published_momentum:
            return self.fresh_domain_state()
        return super().inherit_domain_state(state)

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        prediction = self.forward(inputs)
        entropies = entropy(samples(prediction))
        self._reliable = self._is_reliable(entropies, prediction.shape[1])
        if not self._reliable.any():
            return prediction, None
        return prediction, entropies[self._reliable].mean()

    def update(self, inputs: Tensor, loss: Tensor) -> None:
        """Step along the gradient of the worst point nearby."""
        if not self.backward(loss):
            return
        start = self.space.snapshot()
        gradient = self.space.gradient
        self.space.load(start + gradient * (self.rho / (gradient.norm() + 1e-12)))
        second = self._second_loss(inputs)
        stepping = second is not None and self.backward(second)
        self.space.load(start)
        if second is not None and stepping:
            self.step()
            average = moving_average(self.state["loss"], second, self.momentum)
            self.state["loss"] = average
            if average < self.reset_below:
                self.reset()
                self.counts["resets"] += 1

    def _second_loss(self, inputs: Tensor) -> Tensor | None:
        """Return the entropy of samples reliable at both points; None without such samples."""
        self.space.zero_grad()
        logits = samples(self.forward(inputs))
        entropies = entropy(logits)[self._reliable]
        reliable = self._is_reliable(entropies, logits.shape[1])
        if not reliable.any():
            self.counts["skipped"] += 1
            return None
        return entropies[reliable].mean()

    def _is_reliable(self, entropies: Tensor, classes: int) -> Tensor:
        return entropies.detach() < self.margin * math.log(classes)
