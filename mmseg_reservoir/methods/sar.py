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
    """From "Towards Stable Test-Time Adaptation in Dynamic Wild World".

    Minimises the mean entropy of the reliable samples, ``H < E_0`` (Eq. 2), at the worst point
    nearby, ``theta + rho g / ||g||`` with the gradient ``g`` at ``theta`` (Eq. 4 and 5). The
    gradient there, of those samples that are still reliable, is applied at ``theta`` (Eq. 6). Where
    the moving average of that second loss falls below ``reset_below``, the model has collapsed to
    trivial answers and starts from the source again ("model recovery").

    The moving average belongs to the domain, and so does the momentum of the optimizer, which a
    reset drops. ``counts["resets"]`` counts the resets. The paper's optimizer is SGD with momentum
    0.9.

    Args:
        margin: ``E_0 / ln C``: the largest share of the maximal entropy that is reliable.
        rho: Radius of the neighbourhood.
        reset_below: Loss (the paper's e_m) below which the model is reset.
        momentum: Of the moving average of the loss.
        published_momentum: True shares the optimizer's state between all domains and keeps it over
            resets. That is what the published implementation of ReservoirTTA does, for want of
            SAM's inner state in its saved one: a push learned in one domain moves another.
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
        self.published_momentum = published_momentum  # asked for while the first state is made
        super().__init__(*args, **options)
        self.margin = margin
        self.rho = rho
        self.reset_below = reset_below
        self.momentum = momentum
        self.counts["resets"] = 0

    def fresh_domain_state(self) -> dict[str, Any]:
        """No average loss and no momentum, unless it is that of all domains."""
        state = super().fresh_domain_state() | {"loss": None}
        if self.published_momentum:
            state["optimizer"] = self.optimizer.state[self.space.values]
        return state

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """The momentum comes along with the parameters; shared momentum is there already."""
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
        """Climb to the worst point nearby, take the gradient there, step from where we were."""
        if not self.backward(loss):
            return
        here = self.space.snapshot()
        gradient = self.space.gradient
        self.space.load(here + gradient * (self.rho / (gradient.norm() + 1e-12)))
        second = self._loss_there(inputs)
        stepping = second is not None and self.backward(second)
        self.space.load(here)
        if second is not None and stepping:
            self.step()
            average = moving_average(self.state["loss"], second, self.momentum)
            self.state["loss"] = average
            if average < self.reset_below:
                self.reset()
                self.counts["resets"] += 1

    def _loss_there(self, inputs: Tensor) -> Tensor | None:
        """The entropy of the samples that are reliable at both points; None if there are none."""
        self.space.zero_grad()
        logits = samples(self.forward(inputs))
        entropies = entropy(logits)[self._reliable]
        still = self._is_reliable(entropies, logits.shape[1])
        if not still.any():
            self.counts["skipped"] += 1
            return None
        return entropies[still].mean()

    def _is_reliable(self, entropies: Tensor, classes: int) -> Tensor:
        return entropies.detach() < self.margin * math.log(classes)
