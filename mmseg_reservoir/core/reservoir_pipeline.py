"""The pipeline with a reservoir of experts, which connects the method and the reservoir."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..registry import find, register
from .alignment import Alignment
from .expert_init import InitOption
from .guard import Guard
from .outcome import Outcome
from .pipeline import AdaptationPipeline, find_route
from .pooling import Pooling
from .reservoir import Reservoir
from .reservoir_stages import reservoir_stages
from .route import Route
from .safeguards import Safeguards
from .trigger import Trigger

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod
    from ..routing.base import Router


STATEFUL = ("router", "guard", "pooling", "trigger", "alignment")
"""Attributes with a saved state, besides the reservoir."""


@register("pipeline", "reservoir")
class ReservoirPipeline(AdaptationPipeline):
    """ReservoirTTA (paper, Algorithm 1): the method adapts the expert of each batch's style.

    Args:
        method: The adaptation method.
        router: Router that chooses the expert.
        encoder: Function from a batch to its style vector. Defaults to None, if the router needs
            no style.
        init: Strategy for a new expert, registered as ``"init"``. Defaults to ``"mi"``.
        predict: Time of the prediction: ``"before"`` or ``"after"`` the update. Defaults to
            ``"before"``.
        ensemble: Whether all experts predict together; False uses the routed expert only (the
            ablation without EMR). Defaults to True.
        progressive: Whether to scale every update by the expert's weight in the route. Defaults to
            False.
        one_hot: Smallest weight that counts as one-hot. Such a route reuses the prediction of the
            adapting forward pass, without a second pass of the ensemble. Defaults to 1 - 1e-6.
        guard: Guard of the experts. Defaults to None: all updates count, as published.
        pooling: Pooling of updates. Defaults to None: experts share nothing, as published.
        trigger: Trigger of updates. Defaults to None: experts adapt to all batches, as published.
        alignment: Alignment of feature moments. Defaults to None, no correction, as published.
        unfit: Handling of a batch that fits no expert: ``"learn"`` adapts the nearest one, as
            published, ``"predict"`` only predicts with it. Defaults to ``"learn"``.
        source: Handling of the source's domain: ``"adapt"`` adapts expert 0, as published,
            ``"keep"`` predicts with the source model. Methods that need every batch always adapt.
            Defaults to ``"adapt"``.
    """

    def __init__(
        self,
        method: AdaptationMethod,
        router: Router,
        encoder: Callable[[Tensor], Tensor] | None = None,
        init: InitOption = "mi",
        predict: Literal["before", "after"] = "before",
        ensemble: bool = True,
        progressive: bool = False,
        one_hot: float = 1 - 1e-6,
        guard: Guard | None = None,
        pooling: Pooling | None = None,
        trigger: Trigger | None = None,
        alignment: Alignment | None = None,
        unfit: Literal["learn", "predict"] = "learn",
        source: Literal["adapt", "keep"] = "adapt",
    ) -> None:
        super().__init__(method, predict)
        if trigger is not None:
            method.check_can_rest()
        self.guard = guard
        self.pooling = pooling
        self.trigger = trigger
        self.alignment = alignment
        self.learns_unfit = unfit == "learn"
        self.keeps_source = source == "keep" and not method.needs_every_batch
        if alignment is not None:
            method.forward = alignment.attach(method.space.model, method.forward)
        self.ensemble = ensemble
        self.progressive = progressive
        self.router = router
        self.encoder = encoder
        self.init = find("init", init)
        self.one_hot = one_hot
        self.reservoir = Reservoir(self.source, method.domain_state(), router.k_max)
        self.safeguards: Safeguards | None = None
        if guard is not None or pooling is not None:
            self.safeguards = Safeguards(
                method, self.reservoir, guard, pooling, self._aligned, self.keeps_source
            )

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt the expert of the batch's style and predict with the experts' ensemble."""
        route, measured = find_route(
            self.router, self.encoder, inputs, complete, domain, self.check
        )
        if route.is_new:
            self._open(inputs)
        if not (route.fits or self.learns_unfit):
            outcome = self._wait(route, inputs)
        elif self._rests(route.index):
            outcome = self._rest(route, inputs)
        else:
            outcome = self._learn(route, inputs)
        return replace(outcome, **measured)

    def _learn(self, route: Route, inputs: Tensor, checks: bool = True) -> Outcome:
        """Adapt the routed expert and predict.

        Args:
            route: Route of the batch.
            inputs: The batch.
            checks: Whether guard and alignment may run extra passes. Defaults to True.
        """
        work = ["style", "adapt"]
        alone = self._is_alone(route)
        reuse = alone and not self.predict_after
        if not (reuse or self.predict_after):
            with self._aligned(route.index):
                logits = self._predict_together(route, inputs)
            work.append("predict")

        expert, state = self.reservoir.checkout(route.index)
        self.method.load(expert, state)
        before = [] if self.safeguards is None else self.safeguards.before(route.index)
        updates, version = self.method.counts["updates"], self.method.space.version
        with self._aligned(route.index, learn_from=inputs):
            adapting = self.method.adapt(inputs)
        adapted = self.method.space.values.detach()
        change = self.method.change_since(version)
        if self.progressive:
            adapted = torch.lerp(expert, adapted, float(route.weights[route.index]))
            change = None
        self.reservoir.commit(route.index, adapted, self.method.domain_state())
        updates = self.method.counts["updates"] - updates
        self.reservoir.count_batch(route.index, images=len(inputs), updates=updates)
        if self.trigger is not None:
            self.trigger.note(route.index, adapting)
        if self.alignment is not None:
            work += ["trial"] * self._try_reach(route.index, expert, inputs, checks)
        if self.safeguards is not None:
            probed = self.safeguards.apply(route.index, before, inputs, adapting, change, checks)
            work += ["probe"] * probed

        if reuse:
            logits = adapting
        elif alone:
            self.method.space.load(expert)
            with self._aligned(route.index):
                logits = self.method.predict(inputs)
        elif self.predict_after:
            with self._aligned(route.index):
                logits = self._predict_together(route, inputs)
        return self._outcome(logits, route, *work)

    def _outcome(self, logits: Tensor, route: Route, *work: str) -> Outcome:
        return Outcome(self.method.correct(logits), route, len(self.reservoir), work)

    def stages(self, inputs: Tensor, domain: str | None = None) -> dict[str, Callable[[], object]]:
        """Return the stages of :func:`.reservoir_stages.reservoir_stages`."""
        return reservoir_stages(self, inputs, domain)

    def _open(self, inputs: Tensor) -> None:
        """Add the expert of a new domain."""
        parent = self.reservoir.last
        self.reservoir.add(*self.init(self.reservoir, self.method, inputs))
        if self.alignment is not None:
            self.alignment.add(parent)

    def _wait(self, route: Route, inputs: Tensor) -> Outcome:
        """Predict a batch that fits no expert; store its moments for a new domain."""
        aligned = self.alignment
        with nullcontext() if aligned is None else aligned.waiting(inputs, route.index):
            logits = self._predict(route, inputs)
        return self._outcome(logits, route, "style", "predict")

    def _aligned(
        self, index: int, learn_from: Tensor | None = None
    ) -> AbstractContextManager[None]:
        """Align forward passes by the moments of an expert, if there is an alignment."""
        if self.alignment is None:
            return nullcontext()
        return self.alignment.expert(index, learn_from)

    def _try_reach(self, index: int, before: Tensor, inputs: Tensor, checks: bool) -> int:
        """Count a batch for the alignment; return the number of passes of a trial that is due."""
        assert self.alignment is not None
        self.alignment.settle(index, len(inputs))
        if not checks or not self.alignment.is_due(index):
            return 0
        with self.method.space.at(before):
            return self.alignment.try_reach(index, self.method.forward, inputs)

    def _rests(self, index: int) -> bool:
        """Return whether an expert only predicts its next batch."""
        if index == 0 and self.keeps_source:
            return True
        return self.trigger is not None and not self.trigger.is_due(index)

    def _rest(self, route: Route, inputs: Tensor) -> Outcome:
        """Predict a batch with an expert that is not updated."""
        with self._aligned(route.index, learn_from=inputs):
            logits = self._predict(route, inputs)
        if self.alignment is not None:
            self.alignment.settle(route.index, len(inputs))
        self.reservoir.count_batch(route.index, images=len(inputs), updates=0)
        if self.trigger is not None:
            self.trigger.note(route.index, logits)
        return self._outcome(logits, route, "style", "predict")

    def report(self) -> dict[str, Any]:
        """Return the reports of alignment, guard and trigger."""
        parts = {"alignment": self.alignment, "guard": self.guard, "trigger": self.trigger}
        return {name: part.report() for name, part in parts.items() if part is not None}

    def expert_state(self, index: int) -> dict[str, Any]:
        """Return the entries of guard and alignment about an expert, as plain data."""
        parts = [part for part in (self.guard, self.alignment) if part is not None]
        return {name: value for part in parts for name, value in part.expert_state(index).items()}

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch without adapting."""
        route, measured = find_route(self.router, self.encoder, inputs, False, domain, self.check)
        with self._aligned(route.index):
            logits = self._predict(route, inputs)
        return replace(self._outcome(logits, route, "style", "predict"), **measured)

    def _predict(self, route: Route, inputs: Tensor) -> Tensor:
        """Return the prediction of the existing experts, in one forward pass."""
        if not self._is_alone(route):
            return self._predict_together(route, inputs)
        self.method.load(*self.reservoir.checkout(route.index))
        return self.method.predict(inputs)

    def _is_alone(self, route: Route) -> bool:
        """Return whether the routed expert predicts alone, without an ensemble."""
        return not self.ensemble or float(route.weights[route.index]) >= self.one_hot

    def reset_optimizers(self) -> None:
        """Reset the optimizer moments of every expert."""
        for index in range(len(self.reservoir)):
            self.method.reset_optimizer(self.reservoir.checkout(index)[1])

    def reset_expert(self, index: int) -> None:
        """Reset an expert to the source, but keep its domain."""
        self.reservoir.commit(index, self.source, self.method.fresh_domain_state())
        for part in (self.alignment, self.guard, self.trigger):
            if part is not None:
                part.forget(index)

    def _predict_together(self, route: Route, inputs: Tensor) -> Tensor:
        with self.method.space.ensembled(self.reservoir.experts, route.weights):
            return self.method.predict(inputs)

    def _parts(self) -> dict[str, Any]:
        """Return all parts with a state by name; None for a missing one."""
        return {name: getattr(self, name) for name in STATEFUL}

    def _state(self) -> dict[str, Any]:
        parts = self._parts().items()
        states = {name: part.state_dict() for name, part in parts if part is not None}
        return {"reservoir": self.reservoir.state_dict(), **states}

    def _load_state(self, state: dict[str, Any]) -> None:
        for name, part in self._parts().items():
            if (part is None) != (name not in state):
                raise ReservoirError(
                    f"the saved state has {'no' if part is not None else 'a'} {name}, this run "
                    f"has {'one' if part is not None else 'none'}: choose the preset that it had"
                )
            if part is not None:
                part.load_state_dict(state[name])
        self.reservoir.load_state_dict(state["reservoir"])
        self.method.load(*self.reservoir.checkout(0))
