"""What every adaptation method shares: gradients, the guarded step, and the per-domain state."""

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
from ..errors import ReservoirError
from ..params.base import ParamSpace
from .common.step_rollback import TROUBLES, StepRollback, note

Forward = Callable[[Tensor], Tensor]
"""``inputs -> logits (N, C, *spatial)``."""

OptimizerFactory = Callable[[list[Tensor]], torch.optim.Optimizer]

_WINDOW = 100  # batches over which a method that selects samples is watched
_FEW = 0.01  # a share of batches with such samples that can hardly be meant

_logger = logging.getLogger(__name__)


def samples(logits: Tensor) -> Tensor:
    """One row per image or pixel: ``(N, C, *spatial) -> (S, C)``."""
    return logits.movedim(1, -1).flatten(0, -2)


def moving_average(average: Tensor | None, value: Tensor, momentum: float) -> Tensor:
    """Exponential moving average without gradient; None stands for "nothing averaged yet"."""
    value = value.detach()
    return value if average is None else momentum * average + (1 - momentum) * value


class AdaptationMethod(ABC):
    """One set of parameters, adapted batch by batch.

    A subclass writes :meth:`loss`. All that belongs to one domain lives in ``self.state``, a
    plain dict; a subclass that needs more than the optimizer's state extends
    :meth:`fresh_domain_state`. It need not know whether there are other domains: whoever owns
    several swaps the parameters and the dict.

    Args:
        forward: The model, as a function from inputs to logits.
        space: The parameters that adapt.
        optimizer: Makes the optimizer, for example ``partial(torch.optim.Adam, lr=1e-3)``.
    """

    supports: tuple[str, ...] = ("images", "pixels")
    """What it can adapt to: logits ``(N, C)`` of images, ``(N, C, H, W)`` of pixels, or both."""

    statistics: str | None = None
    """What BatchNorm shall normalise by where the user does not say: ``"running"``, the statistics
    of the source, ``"batch"``, or None for what the task does: ``"batch"`` for classifiers,
    ``"running"`` for segmentation."""

    filter_options: tuple[str, ...] = ()
    """The options that decide which samples count. A method that has some is expected to find such
    samples: if it hardly does, a warning names these options."""

    needs_every_batch: str = ""
    """Why no batch may be only predicted: what :meth:`adapt` does with each, update or not. Empty,
    as mostly: nothing, and :meth:`predict` says what it would have said before its update."""

    def __init__(self, forward: Forward, space: ParamSpace, optimizer: OptimizerFactory) -> None:
        self.forward = forward
        self.space = space
        self.source = space.snapshot()
        self.optimizer = optimizer([space.values])
        self.counts = dict.fromkeys(("updates", "skipped", *TROUBLES), 0)
        self.checks: dict[str, Tensor] = {}
        """Whether parts of the current update are finite, on the device; judged at its end."""
        self.judged: tuple[int, int, Change] | None = None
        """Versions of the values before and after the last judged batch, and their change."""
        self._selected: deque[bool] = deque(maxlen=_WINDOW)
        self._has_warned = False
        self.state: dict[str, Any] = {}
        self.load_domain_state(self.fresh_domain_state())

    @property
    def needs_source(self) -> bool:
        """Whether :meth:`prepare` has to be called."""
        return False

    def prepare(self, source: Iterable[Tensor]) -> None:
        """Learn from source batches before the stream begins (Fisher information, ...)."""

    @abstractmethod
    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The prediction for the batch, and the loss to descend (None: do not update)."""

    def adapt(self, inputs: Tensor) -> Tensor:
        """Adapt to a batch; returns the prediction made before the update.

        A batch that breaks something leaves no trace but in the counts (:class:`StepRollback`).
        """
        good = StepRollback(self)
        self.checks = {}
        self.space.zero_grad()
        with torch.enable_grad():
            prediction, loss = self.loss(inputs)
            if loss is None:
                self.counts["skipped"] += 1
            else:
                self.update(inputs, loss)
        if self.filter_options:
            self._watch(selected=self.counts["skipped"] == good.counts["skipped"])
        prediction = prediction.detach()
        good.judge(inputs, prediction, stepped=loss is not None)
        return prediction

    def _watch(self, selected: bool) -> None:
        """Say once if hardly any batch has a sample that counts: the run looks fine otherwise."""
        self._selected.append(selected)
        selected_ones = sum(self._selected)
        if self._has_warned or len(self._selected) < _WINDOW or selected_ones > _FEW * _WINDOW:
            return
        self._has_warned = True
        _logger.warning(
            "%s hardly adapts: only %d of the last %d batches (%.1f %%) had a sample that counts. "
            "Look at %s",
            type(self).__name__,
            selected_ones,
            _WINDOW,
            100 * selected_ones / _WINDOW,
            ", ".join(f"{name}={getattr(self, name)}" for name in self.filter_options),
        )

    def check_can_rest(self) -> None:
        """Refuse a trigger where a batch that is only predicted would be missed."""
        if self.needs_every_batch:
            raise ReservoirError(
                f"a trigger keeps batches from {type(self).__name__}, which must see all of them: "
                f"{self.needs_every_batch}. Leave reservoir.trigger out"
            )

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """The prediction of the current parameters, without adapting."""
        return self.forward(inputs)

    def correct(self, logits: Tensor) -> Tensor:
        """Post-process the prediction that a pipeline returns; :meth:`predict` stays raw."""
        return logits

    def update(self, inputs: Tensor, loss: Tensor) -> None:
        """Descend the loss. Methods with more than one backward pass override this.

        Whether loss and gradient are finite is read when the whole update is judged, which undoes
        it if they are not: each read makes the host wait for the device.
        """
        for name, is_finite in self._propagate(loss).items():
            self.checks[name] = is_finite & self.checks.get(name, is_finite)
        self.step()

    def backward(self, loss: Tensor) -> bool:
        """Back-propagate; False, counted and told, if loss or gradient is not finite."""
        for name, is_finite in read_flags(self._propagate(loss)).items():
            if not is_finite:
                note(self.counts, "not_finite", f"update skipped: the {name} is not finite")
                return False
        return True

    def _propagate(self, loss: Tensor) -> dict[str, Tensor]:
        """Back-propagate; return whether loss and gradient are finite, on the device."""
        loss.backward()
        # Squared, as optimizers do: a moment that overflows would stop them for good.
        square = self.space.gradient.float().square().sum()
        return {"loss": torch.isfinite(loss.detach()).all(), "gradient": torch.isfinite(square)}

    def step(self) -> None:
        """Let the optimizer step on the gradient."""
        self.move()
        self.counts["updates"] += 1

    def move(self) -> None:
        """One step of the optimizer; methods that take several for a batch count one update."""
        with self.space.preserve_buffers():  # weight decay and momentum are for parameters
            self.optimizer.step()
        self.space.changed()

    def reset(self) -> None:
        """Begin the current domain anew: source parameters, and a state that has seen nothing."""
        self.load(self.source, self.fresh_domain_state())

    def change_since(self, version: int) -> Change | None:
        """Return the change of the values since a version of them, without reading the device.

        None if anything but one judged batch changed them since.
        """
        if self.judged is None or self.judged[:2] != (version, self.space.version):
            return None
        return self.judged[2]

    @property
    def rejected(self) -> int:
        """How many updates were not made, or undone, because something was broken."""
        return self.counts["not_finite"] + self.counts["rollbacks"]

    # All that is per domain: one dict, handed over by reference.

    def fresh_domain_state(self) -> dict[str, Any]:
        """The state of a domain that has seen nothing."""
        return {"optimizer": {}, "rejected": 0}

    def domain_state(self) -> dict[str, Any]:
        """The state of the current domain, by reference."""
        self.state["optimizer"] = self.optimizer.state[self.space.values]
        return self.state

    def load_domain_state(self, state: dict[str, Any]) -> None:
        """Go on with another domain's state."""
        self.state = state
        self.optimizer.state[self.space.values] = state["optimizer"]

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a new domain whose parameters are cloned from the domain of ``state``.

        The optimizer's moments belong to the parameters and come along; statistics of the
        other domain's stream do not.
        """
        return self.fresh_domain_state() | {"optimizer": copy.deepcopy(state["optimizer"])}

    def parameter_like_state(self, state: dict[str, Any]) -> list[Tensor]:
        """The vectors of a domain's state that are parameters as well, such as a student.

        Where something else than the method moves the parameters of a domain, these move along.
        """
        return []

    def reset_optimizer(self, state: dict[str, Any]) -> None:
        """Let the optimizer of a domain begin anew."""
        current = state is self.state
        state["optimizer"] = {}
        if current:
            self.load_domain_state(state)

    def load(self, parameters: Tensor, state: dict[str, Any]) -> None:
        """Go on with another domain's parameters and state."""
        self.space.load(parameters)
        self.load_domain_state(state)

    def state_dict(self) -> dict[str, Any]:
        """What is shared by all domains: the counts, and the source that they all come from."""
        return {"counts": dict(self.counts), "source": self.source.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; the source too, as the net may have begun with another."""
        source = state["source"]
        if source.shape != self.source.shape:
            raise ReservoirError(
                f"the saved state adapts {len(source)} numbers, this method {len(self.source)}: "
                "use the same model and params"
            )
        self.counts = dict(state["counts"])
        self.source.copy_(source)
        self.space.set_source(source)
