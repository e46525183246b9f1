"""The reservoir's router with one model, which is reset when the domain changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from ..registry import register
from .outcome import Outcome
from .pipeline import AdaptationPipeline, SingleModelPipeline, find_route

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod
    from ..routing.base import Router


@register("pipeline", "reset")
class DomainResetPipeline(AdaptationPipeline):
    """Pipeline of one model that is reset to the source when the router's domain changes.

    With RDumb's method this is the paper's "RDumb w/ VGG".

    Args:
        method: The adaptation method.
        router: Router that decides the domain.
        encoder: Function from a batch to its style vector; None if the router needs no style.
        predict: Time of the prediction: ``"before"`` or ``"after"`` the update. Defaults to
            ``"before"``.
    """

    def __init__(
        self,
        method: AdaptationMethod,
        router: Router,
        encoder: Callable[[Tensor], Tensor] | None = None,
        predict: Literal["before", "after"] = "before",
    ) -> None:
        super().__init__(method, predict)
        self.router = router
        self.encoder = encoder
        self._single = SingleModelPipeline(method, predict)
        self._domain = 0

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Reset if the domain changed, then adapt and predict."""
        route, measured = find_route(
            self.router, self.encoder, inputs, complete, domain, self.check
        )
        if route.index != self._domain:
            self.method.reset()
            self._domain = route.index
        outcome = self._single.step(inputs)
        return replace(outcome, route=route, k=self.router.k, **measured)

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch without adapting or resetting."""
        route, measured = find_route(self.router, self.encoder, inputs, False, domain, self.check)
        outcome = self._single.infer(inputs)
        return replace(outcome, route=route, k=self.router.k, **measured)

    def _state(self) -> dict[str, Any]:
        state = {"router": self.router.state_dict(), "domain": self._domain}
        return {**self._single._state(), **state}

    def _load_state(self, state: dict[str, Any]) -> None:
        self._single._load_state(state)
        self.router.load_state_dict(state["router"])
        self._domain = state["domain"]
