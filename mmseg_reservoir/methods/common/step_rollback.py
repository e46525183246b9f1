"""The way back from a batch that breaks what adapts: to what was there before it."""

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
"""So many rejected batches in a row, and a domain begins anew at the source."""
FAR = 100.0
"""No adapted number may become larger than so many times the largest of the source, or 1."""
TROUBLES = ("not_finite", "rollbacks", "restarts")
"""Counts of a method: updates that were not made, that were undone, and domains begun anew."""

_logger = logging.getLogger(__name__)


def note(counts: dict[str, int], trouble: str, text: str) -> None:
    """Count a trouble; the first ones, then the 10th, 100th, ... are worth a line."""
    counts[trouble] += 1
    count = counts[trouble]
    if count <= PATIENCE or str(count).strip("0") == "1":
        _logger.warning("%s (%d so far)", text, count)


class StepRollback:
    """All that belongs to the current domain of a method, as it was before a batch.

    Parameters and the optimizer's moments change in place and are copied; all else in a domain's
    state is replaced by those who change it, and only held on to.

    Args:
        method: The method, which is about to see a batch.
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
        """Accept what the batch made of the domain, or go back to what was before it.

        After `PATIENCE` rejected batches in a row the domain begins anew: what it was before them
        may be what breaks, such as parameters that are finite and absurd.

        Args:
            inputs: The batch.
            prediction: What the method said of it, before the update.
            stepped: Whether the method wanted an update.
        """
        method = self.method
        if not self._is_broken(prediction):
            if stepped:
                method.state["rejected"] = 0
            return
        self._restore()
        if not torch.isfinite(inputs).all():
            return  # the batch is to blame, not what adapts
        method.state["rejected"] += 1
        if method.state["rejected"] == PATIENCE:
            method.reset()
            rate = method.optimizer.param_groups[0]["lr"]
            told = f"{PATIENCE} rejected updates in a row: back to the parameters of the source. "
            note(method.counts, "restarts", f"{told}Is the learning rate, {rate:g}, too large?")

    def _is_broken(self, prediction: Tensor) -> bool:
        """Whether something went wrong; counts and tells what."""
        method, space = self.method, self.method.space
        if method.counts["not_finite"] > self.counts["not_finite"]:
            return True
        values = space.values.detach()
        allowed = FAR * space.adapted(method.source).abs().amax().clamp(min=1)
        vectors = [values, *method.parameter_like_state(method.state)]
        sane = [_is_sane(vector, space.adapting, allowed) for vector in vectors]
        # A filter takes no sample of such a prediction, and would wait for ever. Minus infinity
        # is how a model rules out a class.
        checks = {**method.checks, "prediction": (prediction < torch.inf).all()}
        change = Change.flags(space, self._values, values, method.source)
        flags = read_flags({**checks, "sane": torch.stack(sane).all(), **change})
        seen = Change(**{name: flags[name] for name in change})
        method.judged = self._version, space.version, seen
        for name in checks:
            if not flags[name]:
                note(method.counts, "not_finite", f"update skipped: the {name} is not finite")
                return True
        if not flags["sane"]:
            told = f"update undone: a parameter is not finite, or beyond {float(allowed):.3g}"
            note(method.counts, "rollbacks", told)
            return True
        return False

    def _restore(self) -> None:
        """Let the method go on as if the batch had never come; what was in trouble stays told."""
        moments = self._parts["optimizer"]  # the same object: domains may share it
        moments.clear()
        moments.update(self._moments)
        self._state.clear()
        self._state.update(self._parts)
        self.method.load(self._values, self._state)
        self.method.counts |= {n: v for n, v in self.counts.items() if n not in TROUBLES}


def _is_sane(vector: Tensor, adapting: int, allowed: Tensor) -> Tensor:
    """Whether all numbers are finite, and those that adapt, the first ones, no larger than that."""
    # A NaN is the maximum of whatever it stands among, and no NaN is below anything.
    adapted = vector[:adapting].abs().amax() <= allowed
    return adapted & torch.isfinite(vector[adapting:]).all()
