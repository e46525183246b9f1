"""The base of all adaptation methods: gradients, the checked step, and the per-domain state."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ..core.change import Change, read_flags
from ..core.state import copied_to
from ..errors import ReservoirError
from ..params.base import ParamSpace
from .common.step_rollback import FAILURES, StepRollback, count_and_warn

Forward = Callable[[Tensor], Tensor]
"""Function from inputs to logits ``(N, C, *spatial)``."""

OptimizerFactory = Callable[[list[Tensor]], torch.optim.Optimizer]

_WINDOW = 100  # number of newest batches in which the filter of a method is monitored
_FEW = 0.01  # share of batches with a selected sample below which there is a warning

_logger = logging.getLogger(__name__)


def samples(logits: Tensor) -> Tensor:
    """Return one row per image or pixel: ``(N, C, *spatial) -> (S, C)``."""
    return logits.movedim(1, -1).flatten(0, -2)


def moving_average(average: Tensor | None, value: Tensor, momentum: float) -> Tensor:
    """Return the exponential moving average, without gradient; it starts at ``value``."""
    value = value.detach()
    return value if average is None else momentum * average + (1 - momentum) * value


class AdaptationMethod(ABC):
    """One set of parameters, adapted batch by batch.

    A subclass implements :meth:`loss`. The state of one domain is ``self.state``, a plain dict,
    which :meth:`fresh_domain_state` may extend. To change the domain, the pipeline replaces the
    parameters and the dict.

    Args:
        forward: Function from inputs to logits, the model.
        space: The parameters that adapt.
        optimizer: Factory of the optimizer, for example ``partial(torch.optim.Adam, lr=1e-3)``.
    """

    supports: tuple[str, ...] = ("images", "pixels")
    """Supported logits: ``"images"`` for ``(N, C)``, ``"pixels"`` for ``(N, C, H, W)``, or both."""

    statistics: str | None = None
    """Default of the option ``statistics``: ``"running"``, ``"batch"``, or None for the default of
    the task (``"batch"`` for classifiers, ``"running"`` for segmentation)."""

    filter_options: tuple[str, ...] = ()
    """Names of the options that select samples, for the warning that hardly any is selected."""

    needs_every_batch: str = ""
    """Reason why every batch must pass through :meth:`adapt`, for the error with a trigger. Empty
    if :meth:`predict` may replace it."""

    shared_tensors: tuple[str, ...] = ()
    """Names of saved tensor attributes that all domains share; the attributes may be None."""

    def __init__(self, forward: Forward, space: ParamSpace, optimizer: OptimizerFactory) -> None:
        self.forward = forward
        self.space = space
        self.source = space.snapshot()
        self.optimizer = optimizer([space.values])
        self.counts = dict.fromkeys(("updates", "skipped", *FAILURES), 0)
        self.checks: dict[str, Tensor] = {}
        """Flags on the device: whether loss and gradient of the current update are finite."""
        self.judged: tuple[int, int, Change] | None = None
        """Versions of the values before and after the last accepted batch, and their change."""
        self._selected: deque[bool] = deque(maxlen=_WINDOW)
        self._has_warned = False
        self.state: dict[str, Any] = {}
        self.load_domain_state(self.fresh_domain_state())

    @property
    def needs_source(self) -> bool:
        """Return whether :meth:`prepare` must be called."""
        return False

    def prepare(self, source: Iterable[Tensor]) -> None:
        """Measure source batches before the stream, for example for the Fisher information."""

    @abstractmethod
    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the prediction for a batch, and the loss; None skips the update."""

    def adapt(self, inputs: Tensor) -> Tensor:
        """Adapt to a batch; return the prediction made before the update.

        :class:`StepRollback` undoes an update that breaks the model, except its counts.
        """
        rollback = StepRollback(self)
        self.checks = {}
        self.space.zero_grad()
        with torch.enable_grad():
            prediction, loss = self.loss(inputs)
            if loss is None:
                self.counts["skipped"] += 1
            else:
                self.update(inputs, loss)
        if self.filter_options:
            self._monitor_filter(selected=self.counts["skipped"] == rollback.counts["skipped"])
        prediction = prediction.detach()
        rollback.judge(inputs, prediction, stepped=loss is not None)
        return prediction

    def _monitor_filter(self, selected: bool) -> None:
        """Warn once if hardly any batch has a selected sample."""
        self._selected.append(selected)
        selected_ones = sum(self._selected)
        if self._has_warned or len(self._selected) < _WINDOW or selected_ones > _FEW * _WINDOW:
            return
        self._has_warned = True
        _logger.warning(
            "%s hardly adapts: its filter selected samples in %d of the last %d batches (%.1f %%). "
            "Check %s",
            type(self).__name__,
            selected_ones,
            _WINDOW,
            100 * selected_ones / _WINDOW,
            ", ".join(f"{name}={getattr(self, name)}" for name in self.filter_options),
        )

    def check_can_rest(self) -> None:
        """Raise an error if the method needs every batch, so a trigger is not allowed."""
        if self.needs_every_batch:
            raise ReservoirError(
                f"a trigger keeps batches from {type(self).__name__}, which needs all of them: "
                f"{self.needs_every_batch}. Leave reservoir.trigger out"
            )

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Return the prediction of the current parameters, without adapting."""
        return self.forward(inputs)

    def correct(self, logits: Tensor) -> Tensor:
        """Post-process the prediction that a pipeline returns; :meth:`predict` stays raw."""
        return logits

    def update(self, inputs: Tensor, loss: Tensor) -> None:
        """Descend the loss; methods with several backward passes override this.

        :class:`StepRollback` checks later whether loss and gradient are finite. It reads all checks
        at once, since each read makes the host wait for the device.
        """
        for name, is_finite in self._propagate(loss).items():
            self.checks[name] = is_finite & self.checks.get(name, is_finite)
        self.step()

    def backward(self, loss: Tensor) -> bool:
        """Back-propagate; return False, with a warning, if loss or gradient is not finite."""
        for name, is_finite in read_flags(self._propagate(loss)).items():
            if not is_finite:
                count_and_warn(
                    self.counts, "not_finite", f"update skipped: the {name} is not finite"
                )
                return False
        return True

    def _propagate(self, loss: Tensor) -> dict[str, Tensor]:
        """Back-propagate; return whether loss and gradient are finite, on the device."""
        loss.backward()
        # Squared, since the optimizer's moments are: one that overflows would stop all updates.
        square = self.space.gradient.float().square().sum()
        return {"loss": torch.isfinite(loss.detach()).all(), "gradient": torch.isfinite(square)}

    def step(self) -> None:
        """Step the optimizer, and count the update."""
        self.move()
        self.counts["updates"] += 1

    def move(self) -> None:
        """Step the optimizer, without counting an update."""
        with self.space.preserve_buffers():  # weight decay and momentum would change them
            self.optimizer.step()
        self.space.changed()

    def reset(self) -> None:
        """Reset the current domain: source parameters, and a fresh state."""
        self.load(self.source, self.fresh_domain_state())

    def change_since(self, version: int) -> Change | None:
        """Return the change of the values since a version, without reading the device.

        The result is None unless exactly one accepted batch changed them.
        """
        if self.judged is None or self.judged[:2] != (version, self.space.version):
            return None
        return self.judged[2]

    @property
    def rejected(self) -> int:
        """Return the number of updates that were skipped or undone because of a failure."""
        return self.counts["not_finite"] + self.counts["rollbacks"]

    def fresh_domain_state(self) -> dict[str, Any]:
        """Return the initial state of a domain."""
        return {"optimizer": {}, "rejected": 0}

    def domain_state(self) -> dict[str, Any]:
        """Return the state of the current domain, by reference."""
        self.state["optimizer"] = self.optimizer.state[self.space.values]
        return self.state

    def load_domain_state(self, state: dict[str, Any]) -> None:
        """Switch to another domain's state."""
        self.state = state
        self.optimizer.state[self.space.values] = state["optimizer"]

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a new domain with parameters cloned from the domain of ``state``.

        The optimizer's moments are cloned with the parameters. Statistics of the other domain's
        stream are not cloned.
        """
        return self.fresh_domain_state() | {"optimizer": copy.deepcopy(state["optimizer"])}

    def parameter_like_state(self, state: dict[str, Any]) -> list[Tensor]:
        """Return the vectors of a domain's state that are parameters too, such as a student.

        Guard and pooling change them together with the parameters.
        """
        return []

    def reset_optimizer(self, state: dict[str, Any]) -> None:
        """Reset the optimizer of a domain."""
        current = state is self.state
        state["optimizer"] = {}
        if current:
            self.load_domain_state(state)

    def load(self, parameters: Tensor, state: dict[str, Any]) -> None:
        """Switch to another domain's parameters and state."""
        self.space.load(parameters)
        self.load_domain_state(state)

    def state_dict(self) -> dict[str, Any]:
        """Return what all domains share: counts, source parameters, and shared tensors."""
        shared = {name: getattr(self, name) for name in self.shared_tensors}
        return {"counts": dict(self.counts), "source": self.source.clone(), **shared}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, source parameters included."""
        source = state["source"]
        if source.shape != self.source.shape:
            raise ReservoirError(
                f"the saved state adapts {len(source)} numbers, this method {len(self.source)}: "
                "use the same model and params"
            )
        self.counts = dict(state["counts"])
        self.source.copy_(source)
        self.space.set_source(source)
        for name in self.shared_tensors:
            setattr(self, name, copied_to(state[name], self.source.device))
