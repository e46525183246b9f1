"""Base classes of pipelines, which adapt a model to a stream of batches."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..errors import ReservoirError, refusing
from ..registry import checked
from .image_range import extremes
from .model_lock import ModelLock
from .outcome import Outcome
from .reservoir import Reservoir
from .route import Route

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod
    from ..routing.base import Router

Check = Callable[[Tensor], None]
"""Function that raises an error for invalid :func:`extremes` of inputs ``(2, C)``, on the host."""

_logger = logging.getLogger(__name__)


@checked
class AdaptationPipeline(ABC):
    """Base class of pipelines, which adapt to a stream of batches and predict each of them.

    Args:
        method: The adaptation method.
        predict: Time of the returned prediction: ``"before"`` the update (as in TENT and the
            published implementation), or ``"after"`` it, in a second pass (as in Algorithm 1).
            Defaults to ``"before"``.
    """

    router: Router
    """The router; missing in a pipeline without a reservoir."""
    encoder: Callable[[Tensor], Tensor] | None
    """The style encoder of the router; None if it needs no styles."""

    def __init__(
        self, method: AdaptationMethod, predict: Literal["before", "after"] = "before"
    ) -> None:
        self.method = method
        self.lock = ModelLock()
        """Lock for callers from several threads; the pipeline itself does not acquire it."""
        self.check: Check | None = None
        """Check of the inputs' :func:`extremes`, before anything changes; None accepts all."""
        self.predict_after = predict == "after"

    @property
    def source(self) -> Tensor:
        """Return the source model's parameters, which the method stores."""
        return self.method.source

    @abstractmethod
    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt to a batch and predict it.

        Args:
            inputs: The batch, normalized as the model expects.
            complete: False for an incomplete last batch, which may open no domain. Defaults to
                True.
            domain: True domain, for an oracle router. Defaults to None, unknown.
        """

    @abstractmethod
    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch without adapting or opening a domain.

        The router still follows the stream, since some routers need several batches.
        """

    def predict_source(self, inputs: Tensor) -> Tensor:
        """Return the prediction of the source model, without changing the adaptation."""
        with self.method.space.at(self.source):
            return self.method.predict(inputs)

    def stages(self, inputs: Tensor, domain: str | None = None) -> dict[str, Callable[[], object]]:
        """Return functions that run the stages of a step on a batch, by name, for timing.

        They change the pipeline: see :func:`.step_cost.measure_costs`. ``predict`` only predicts
        the batch, ``adapt`` predicts it and adapts.
        """
        return {
            "predict": lambda: self.infer(inputs, domain=domain),
            "adapt": lambda: self.step(inputs, complete=False, domain=domain),
        }

    def report(self) -> dict[str, Any]:
        """Return the reports of all parts, as plain data for the end of a run."""
        return {}

    def expert_state(self, index: int) -> dict[str, Any]:
        """Return the entries of guard and alignment about an expert, as plain data.

        Returns:
            ``alarms``, the number of the guard's alarms; ``trust``, the weight of updates;
            ``reach`` of the alignment; ``aligned``, the number of images it learned from. Entries
            without a value are left out.
        """
        return {}

    def reset_optimizers(self) -> None:
        """Reset the moments of every optimizer, but not parameters and statistics."""
        self.method.reset_optimizer(self.method.domain_state())

    def reset_expert(self, index: int) -> None:
        """Reset an expert to the source; a pipeline without a reservoir only has expert 0."""
        self.method.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the stream, as plain data."""
        return {
            "pipeline": type(self).__name__,
            "parameters": list(self.method.space.names),
            "method": self.method.state_dict(),
            **self._state(),
        }

    @refusing("the saved state does not fit this run", "save it again, or begin without it")
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
    """Pipeline of a method without a reservoir: one set of parameters for the whole stream."""

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Adapt to a batch and predict it."""
        self._check(inputs)
        logits = self.method.adapt(inputs)
        if self.predict_after:
            logits = self.method.predict(inputs)
        return Outcome(self.method.correct(logits), Route(0, torch.ones(1), is_new=False), k=1)

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        """Predict a batch without adapting."""
        self._check(inputs)
        logits = self.method.correct(self.method.predict(inputs))
        return Outcome(logits, Route(0, torch.ones(1), is_new=False), k=1, work=("predict",))

    def _check(self, inputs: Tensor) -> None:
        if self.check is not None:
            self.check(extremes(inputs).cpu())

    def _state(self) -> dict[str, Any]:
        # A reservoir with one expert has the same state, and copies it correctly.
        single = Reservoir(self.method.space.snapshot(), self.method.domain_state(), k_max=1)
        return {"single": single.state_dict()}

    def _load_state(self, state: dict[str, Any]) -> None:
        single = Reservoir(self.method.space.snapshot(), {}, k_max=1)
        single.load_state_dict(state["single"])
        self.method.load(*single.checkout(0))


def find_route(
    router: Router,
    encoder: Callable[[Tensor], Tensor] | None,
    inputs: Tensor,
    complete: bool,
    domain: str | None,
    check: Check | None = None,
) -> tuple[Route, dict[str, Any]]:
    """Return the route of a batch; the router does not learn from one without a usable style.

    Style and extremes of the inputs come to the host in one transfer.

    Args:
        router: The router, which gets the style on the host.
        encoder: Function from a batch to its style vector; None if the router needs no style.
        inputs: The batch.
        complete: Whether the batch may open a domain.
        domain: True domain; None if unknown.
        check: Check of the inputs before routing. Defaults to None.

    Returns:
        The route, and the options ``style`` and ``stage_seconds`` of an `Outcome`.
    """
    start = time.perf_counter()
    style = None if encoder is None else encoder(inputs)
    values = None
    if router.needs_style or check is not None:
        values, style = _to_host(extremes(inputs), style)
    encoded = time.perf_counter()
    if check is not None and values is not None:
        check(values)
    route = _route(router, style, values, complete, domain)
    seconds = {"style": encoded - start, "route": time.perf_counter() - encoded}
    return route, {"style": style, "stage_seconds": seconds}


def _route(
    router: Router, style: Tensor | None, values: Tensor | None, complete: bool, domain: str | None
) -> Route:
    if values is not None:
        if router.needs_style and torch.equal(*values):
            _logger.warning(
                "the batch is one constant color: it opens no domain and is not learned"
            )
            return router.fallback_route()
        if style is not None and not torch.isfinite(style).all():
            _logger.warning(
                "the style of the batch is not finite: it opens no domain, is not learned"
            )
            return router.fallback_route()
    return router.route(style, may_open=complete, domain=domain)


def _to_host(values: Tensor, style: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Copy both to the host in one transfer, since each makes the host wait for the device."""
    if style is None:
        return values.cpu(), None
    joined = torch.cat([values.flatten(), style.detach()]).cpu()
    count = values.numel()
    return joined[:count].view_as(values), joined[count:].to(style.dtype)
