"""Pipelines: the one place that sees both the method and the reservoir."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import choose, find, register
from .expert_init import ExpertInit
from .guard import Guard
from .pooling import Pooling
from .reservoir import Reservoir
from .route import Route

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod
    from ..routing.base import Router

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What a pipeline did with a batch.

    Args:
        logits: The prediction.
        route: Where the batch went.
        k: The number of experts after it.
    """

    logits: Tensor
    route: Route
    k: int


class AdaptationPipeline(ABC):
    """A stream of batches in, a stream of predictions out, adapting in between.

    Args:
        method: The adaptation method.
        predict: The prediction that counts: the one made ``"before"`` the update (as TENT and the
            published implementation do), or a second one ``"after"`` it (as in Algorithm 1).
    """

    def __init__(
        self, method: AdaptationMethod, predict: Literal["before", "after"] = "before"
    ) -> None:
        self.method = method
        self.predict_after = choose(
            predict, {"before": False, "after": True}, "time of the prediction"
        )

    @property
    def source(self) -> Tensor:
        """The parameters of the source model: the method's, so that a loaded state has but one."""
        return self.method.source

    @abstractmethod
    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt to a batch and predict it.

        Args:
            inputs: The batch, normalised as the model wants it.
            complete: False for an incomplete last batch, whose style is not like the others'.
            domain: The true domain, where known; only an oracle looks at it.
        """

    @abstractmethod
    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch with what has been learned: nothing adapts, no domain is opened.

        A router still follows the stream, since the evidence of several batches is what some
        of them route by.
        """

    def predict_source(self, inputs: Tensor) -> Tensor:
        """What the source model says: a baseline that leaves the adaptation as it was."""
        with self.method.space.at(self.source):
            return self.method.predict(inputs)

    def report(self) -> dict[str, Any]:
        """What happened on the way, as plain data; told at the end of a run."""
        return {}

    def reset_optimizers(self) -> None:
        """Forget the moments of every optimizer; parameters and statistics stay."""
        self.method.reset_optimizer(self.method.domain_state())

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume the stream; plain tensors, numbers, strings, dicts, lists."""
        return {
            "pipeline": type(self).__name__,
            "parameters": list(self.method.space.names),
            "method": self.method.state_dict(),
            **self._state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        if state["pipeline"] != type(self).__name__:
            raise ReservoirError(
                f"the saved state is of a {state['pipeline']}, this run has a "
                f"{type(self).__name__}: switch the reservoir on or off as it was"
            )
        if state["parameters"] != self.method.space.names:
            raise ReservoirError(
                f"the saved state adapts {len(state['parameters'])} tensors, this run "
                f"{len(self.method.space.names)}, or others: use the same model and params"
            )
        self.method.load_state_dict(state["method"])
        self._load_state(state)

    @abstractmethod
    def _state(self) -> dict[str, Any]: ...

    @abstractmethod
    def _load_state(self, state: dict[str, Any]) -> None: ...


class SingleModelPipeline(AdaptationPipeline):
    """The plain method: one set of parameters for all that comes."""

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt to a batch and predict it."""
        logits = self.method.adapt(inputs)
        if self.predict_after:
            logits = self.method.predict(inputs)
        return Outcome(self.method.correct(logits), Route(0, torch.ones(1), is_new=False), k=1)

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch without adapting."""
        logits = self.method.correct(self.method.predict(inputs))
        return Outcome(logits, Route(0, torch.ones(1), is_new=False), k=1)

    def _state(self) -> dict[str, Any]:
        # A reservoir of one is the same thing, and knows how to copy what it keeps.
        single = Reservoir(self.method.space.snapshot(), self.method.domain_state(), k_max=1)
        return {"single": single.state_dict()}

    def _load_state(self, state: dict[str, Any]) -> None:
        single = Reservoir(self.method.space.snapshot(), {}, k_max=1)
        single.load_state_dict(state["single"])
        self.method.load(*single.checkout(0))


@register("pipeline", "reservoir")
class ReservoirPipeline(AdaptationPipeline):
    """ReservoirTTA (paper, Algorithm 1): the method always gets the expert of the batch's style.

    Args:
        method: The adaptation method.
        router: Decides the expert.
        encoder: Batch -> style vector; None if the router needs no style.
        init: What a new expert starts from; registered as ``"init"``.
        predict: ``"before"`` or ``"after"`` the update.
        ensemble: False predicts with the routed expert alone (the ablation without EMR).
        progressive: Keep only a part of every update, the expert's weight in the route.
        one_hot: From this weight on a route counts as one-hot, and the prediction of the adapting
            forward pass is reused instead of a second pass with the ensemble.
        guard: Watches every expert; None trusts all updates, as published.
        pooling: How experts learn from each other; None: not at all, as published.
    """

    def __init__(
        self,
        method: AdaptationMethod,
        router: Router,
        encoder: Callable[[Tensor], Tensor] | None = None,
        init: str | ExpertInit = "mi",
        predict: Literal["before", "after"] = "before",
        ensemble: bool = True,
        progressive: bool = False,
        one_hot: float = 1 - 1e-6,
        guard: Guard | None = None,
        pooling: Pooling | None = None,
    ) -> None:
        super().__init__(method, predict)
        self.guard = guard
        self.pooling = pooling
        self._cares = guard is not None or pooling is not None
        self.ensemble = ensemble
        self.progressive = progressive
        self.router = router
        self.encoder = encoder
        self.init = find("init", init)
        self.one_hot = one_hot
        self.reservoir = Reservoir(self.source, method.domain_state(), router.k_max)

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt the expert of the batch's style and predict with the experts' ensemble."""
        route = find_route(self.router, self.encoder, inputs, complete, domain)
        if route.is_new:
            self.reservoir.add(*self.init(self.reservoir, self.method, inputs))

        alone = self._is_alone(route)
        reuse = alone and not self.predict_after
        if not (reuse or self.predict_after):
            logits = self._predict_together(route.weights, inputs)

        expert, state = self.reservoir.checkout(route.index)
        self.method.load(expert, state)
        before = [expert.clone(), *self.method.moving(state)] if self._cares else []
        adapting = self.method.adapt(inputs)
        adapted = self.method.space.values.detach()
        if self.progressive:
            adapted = torch.lerp(expert, adapted, float(route.weights[route.index]))
        self.reservoir.commit(route.index, adapted, self.method.domain_state())
        if self._cares:
            self._settle(route.index, before, inputs, adapting)

        if reuse:
            logits = adapting
        elif alone:
            self.method.space.load(expert)
            logits = self.method.predict(inputs)
        elif self.predict_after:
            logits = self._predict_together(route.weights, inputs)
        return Outcome(self.method.correct(logits), route, k=len(self.reservoir))

    def _settle(self, index: int, before: list[Tensor], inputs: Tensor, adapting: Tensor) -> None:
        """What becomes of an update: the guard's share of it is made, and the others' of that.

        An expert that is not trusted takes smaller steps, and of these the others take less.
        """
        space, after = self.method.space, self._vectors(index)
        if torch.equal(space.adapted(after[0]), space.adapted(self.source)):
            return  # the method began anew, which is no step to be scaled, nor one for others
        keep, scales = 1.0, torch.ones(len(self.reservoir))
        if self.guard is not None:
            if self.guard.is_due(index):
                # By the expert's statistics: what is asked is what became of the parameters.
                anchor = after[0].clone()
                space.adapted(anchor).copy_(space.adapted(self.source))
                with space.at(anchor):
                    keep = self.guard.judge(index, adapting, self.method.predict(inputs))
            scales = torch.tensor([self.guard.scale(i) for i in range(len(self.reservoir))])
            for old, new in zip(before, after, strict=True):
                space.adapted(new).lerp_(space.adapted(old), 1 - float(scales[index]))
        if keep < 1:
            for vector in after:
                space.adapted(vector).lerp_(space.adapted(self.source), 1 - keep)
        elif self.pooling is not None and not torch.equal(before[0], after[0]):
            shares = self.pooling.shares(index, len(self.reservoir)) * scales * scales[index]
            for other in shares.nonzero().flatten().tolist():
                # One that was never checked out has no state of its own that could move.
                for old, new, vector in zip(before, after, self._vectors(other), strict=False):
                    space.share(vector, old, new, float(shares[other]))

    def _vectors(self, index: int) -> list[Tensor]:
        """All that lies in the space of parameters of an expert: its own, and its method's."""
        parameters, state = self.reservoir.checkout(index)
        return [parameters, *self.method.moving(state)]

    def report(self) -> dict[str, Any]:
        """What the guard saw and did."""
        return {} if self.guard is None else {"guard": self.guard.report()}

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch with the experts as they are."""
        route = find_route(self.router, self.encoder, inputs, complete=False, domain=domain)
        if self._is_alone(route):
            self.method.load(*self.reservoir.checkout(route.index))
            logits = self.method.predict(inputs)
        else:
            logits = self._predict_together(route.weights, inputs)
        return Outcome(self.method.correct(logits), route, k=len(self.reservoir))

    def _is_alone(self, route: Route) -> bool:
        """Whether the routed expert predicts by itself."""
        return not self.ensemble or float(route.weights[route.index]) >= self.one_hot

    def reset_optimizers(self) -> None:
        """Forget the moments of every expert's optimizer."""
        for index in range(len(self.reservoir)):
            self.method.reset_optimizer(self.reservoir.checkout(index)[1])

    def _predict_together(self, weights: Tensor, inputs: Tensor) -> Tensor:
        with self.method.space.ensembled(self.reservoir.experts, weights):
            return self.method.predict(inputs)

    def _state(self) -> dict[str, Any]:
        parts = {"router": self.router, "guard": self.guard, "pooling": self.pooling}
        states = {name: part.state_dict() for name, part in parts.items() if part is not None}
        return {"reservoir": self.reservoir.state_dict(), **states}

    def _load_state(self, state: dict[str, Any]) -> None:
        parts = {"router": self.router, "guard": self.guard, "pooling": self.pooling}
        for name, part in parts.items():
            if (part is None) != (name not in state):
                raise ReservoirError(
                    f"the saved state has {'no' if part is not None else 'a'} {name}, this run "
                    f"has {'one' if part is not None else 'none'}: choose the preset that it had"
                )
            if part is not None:
                part.load_state_dict(state[name])
        self.reservoir.load_state_dict(state["reservoir"])
        self.method.load(*self.reservoir.checkout(0))


def find_route(
    router: Router,
    encoder: Callable[[Tensor], Tensor] | None,
    inputs: Tensor,
    complete: bool,
    domain: str | None,
) -> Route:
    """The route of a batch by its style; one that tells nothing is not learned from."""
    if router.needs_style and _is_constant(inputs):
        return router.blind()
    style = None if encoder is None else encoder(inputs)
    return router.route(style, may_open=complete, domain=domain)


def _is_constant(inputs: Tensor) -> bool:
    """Whether the batch is one flat colour: a covered lens founds no domain."""
    constant = bool((inputs == inputs[:1, :, :1, :1]).all())
    if constant:
        _logger.warning("the batch is one constant colour: it opens no domain and is not learned")
    return constant
