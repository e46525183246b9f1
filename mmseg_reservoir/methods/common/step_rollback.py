"""Rollback of updates that break the adapted parameters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...core.change import Change, read_flags
from ...core.state import copied_to

if TYPE_CHECKING:
    from ..base import AdaptationMethod

PATIENCE = 3
"""Rejected batches in a row after which a domain is reset to the source."""
FAR = 100.0
"""Limit of adapted values, as a multiple of the largest absolute source value, or of 1."""
FAILURES = ("not_finite", "rollbacks", "restarts")
"""Names of a method's counts: skipped updates, undone updates, and resets of a domain."""

_logger = logging.getLogger(__name__)


def count_and_warn(counts: dict[str, int], failure: str, text: str) -> None:
    """Count a failure; log the first three, then the 10th, the 100th, ..."""
    counts[failure] += 1
    count = counts[failure]
    if count <= PATIENCE or str(count).strip("0") == "1":
        _logger.warning("%s (%d so far)", text, count)


class StepRollback:
    """A snapshot of a method's current domain before a batch.

    Parameters and the optimizer's moments change in place, so they are copied. Methods replace all
    other values of a domain's state, so references are enough.
    """

    def __init__(self, method: AdaptationMethod) -> None:
        self.method = method
        self.counts = dict(method.counts)
        self._version = method.space.version
        self._values = method.space.snapshot()
        self._state = method.domain_state()
        self._parts = dict(self._state)
        self._moments = copied_to(dict(self._state["optimizer"]), self._values.device)

    def judge(self, inputs: Tensor, prediction: Tensor, stepped: bool) -> None:
        """Accept the update of a batch, or restore the domain.

        After `PATIENCE` rejected batches in a row the domain is reset, since its earlier state may
        be the cause. ``stepped`` is whether the batch had a loss.
        """
        method = self.method
        if not self._is_broken(prediction):
            if stepped:
                method.state["rejected"] = 0
            return
        self._restore()
        if not torch.isfinite(inputs).all():
            return  # the batch is the cause, not the parameters
        method.state["rejected"] += 1
        if method.state["rejected"] == PATIENCE:
            method.reset()
            rate = method.optimizer.param_groups[0]["lr"]
            text = f"{PATIENCE} rejected updates in a row: back to the parameters of the source. "
            text += f"Is the learning rate, {rate:g}, too large?"
            count_and_warn(method.counts, "restarts", text)

    def _is_broken(self, prediction: Tensor) -> bool:
        """Return whether the update failed; count and log a failure."""
        method, space = self.method, self.method.space
        if method.counts["not_finite"] > self.counts["not_finite"]:
            return True
        values = space.values.detach()
        allowed = FAR * space.adapted(method.source).abs().amax().clamp(min=1)
        vectors = [values, *method.parameter_like_state(method.state)]
        sane = [_is_sane(vector, space.adapting, allowed) for vector in vectors]
        # A filter would never select a sample of a broken prediction. Minus infinity is allowed,
        # since it excludes a class.
        checks = {**method.checks, "prediction": (prediction < torch.inf).all()}
        change = Change.flags(space, self._values, values, method.source)
        flags = read_flags({**checks, "sane": torch.stack(sane).all(), **change})
        seen = Change(**{name: flags[name] for name in change})
        method.judged = self._version, space.version, seen
        for name in checks:
            if not flags[name]:
                count_and_warn(
                    method.counts, "not_finite", f"update skipped: the {name} is not finite"
                )
                return True
        if not flags["sane"]:
            text = f"update undone: a parameter is not finite, or beyond {float(allowed):.3g}"
            count_and_warn(method.counts, "rollbacks", text)
            return True
        return False

    def _restore(self) -> None:
        """Restore the domain and the counts, except those of failures."""
        moments = self._parts["optimizer"]  # the same object: domains may share it
        moments.clear()
        moments.update(self._moments)
        self._state.clear()
        self._state.update(self._parts)
        self.method.load(self._values, self._state)
        self.method.counts |= {n: v for n, v in self.counts.items() if n not in FAILURES}


def _is_sane(vector: Tensor, adapting: int, allowed: Tensor) -> Tensor:
    """Return whether adapting values are within the limit, and the others finite."""
    # If a value is NaN, the maximum is NaN, and the comparison is false.
    adapted = vector[:adapting].abs().amax() <= allowed
    return adapted & torch.isfinite(vector[adapting:]).all()
