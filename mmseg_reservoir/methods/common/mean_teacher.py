"""What methods with a teacher share: two sets of values, of which one model holds either."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ...option_types import Fraction
from ...registry import checked
from ..base import AdaptationMethod


@checked
class MeanTeacher(AdaptationMethod):
    """A student that descends, and a teacher that is the student's moving average.

    Two networks, one model: whichever has to run is loaded. Between two calls the space holds the
    *teacher*, since it is the one that predicts: so an ensemble of experts is one of teachers. The
    student waits in the domain's state. An update that fails, or that a loss of None declines,
    leaves both as they were.

    A subclass calls :meth:`take_student` in its loss, after the teacher has spoken.

    Args:
        momentum: m of the teacher, ``theta' <- m theta' + (1 - m) theta`` after every step.
        restore: After the step every value of the student goes back to the source with this
            probability (CoTTA, Eq. 5 to 8).
        seed: Of everything random in the method; the generator is saved with the state.
        **options: See :class:`AdaptationMethod`.
    """

    def __init__(
        self,
        *args: Any,
        momentum: Fraction = 0.999,
        restore: Fraction = 0.0,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.momentum = momentum
        self.restore = restore
        self.generator = torch.Generator().manual_seed(seed)
        self._teacher: Tensor | None = None  # who is set aside while the student is in the space
        super().__init__(*args, **options)

    def adapt(self, inputs: Tensor) -> Tensor:
        """Adapt to a batch; whatever comes of it, the teacher is in the space afterwards."""
        try:
            return super().adapt(inputs)
        finally:
            if self._teacher is not None:
                self.space.load(self._teacher)
                self._teacher = None

    def take_student(self) -> None:
        """Put the teacher aside and load the student."""
        self._teacher = self.space.snapshot()
        self.space.load(self.state["student"])

    def step(self) -> None:
        """The student's step, the restoration, and the teacher's average."""
        super().step()
        student = self.space.snapshot()
        if self.restore:
            restored = torch.rand(len(student), generator=self.generator) < self.restore
            student = torch.where(restored.to(student.device), self.source, student)
        self.state["student"] = student
        assert self._teacher is not None, "the loss of a subclass calls take_student()"
        self.space.load(self.average(student, self._teacher))
        self._teacher = None

    def average(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Return the teacher after the student's step."""
        return torch.lerp(student, teacher, self.momentum)

    def fresh_domain_state(self) -> dict[str, Any]:
        """No student yet: it begins as the teacher (:meth:`load_domain_state`)."""
        return super().fresh_domain_state() | {"student": None}

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """A clone goes on with a copy of the student, whose the optimizer's moments are."""
        return super().inherit_domain_state(state) | {"student": copy.deepcopy(state["student"])}

    def parameter_like_state(self, state: dict[str, Any]) -> list[Tensor]:
        """The student."""
        return [] if state["student"] is None else [state["student"]]

    def load_domain_state(self, state: dict[str, Any]) -> None:
        self._teacher = None  # of another domain, or of one that goes back or begins anew
        super().load_domain_state(state)
        if state["student"] is None:
            state["student"] = self.space.snapshot()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.generator.set_state(state["generator"].cpu())


def as_logits(probabilities: Tensor) -> Tensor:
    """Logits of which these are the softmax; finite also where a probability is 0."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def soft_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """``-sum_c label_c log softmax(logits)_c`` of every row."""
    return -(label * logits.log_softmax(dim=1)).sum(dim=1)
