"""Base class of methods with a teacher and a student, two sets of values of one model."""

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
    """A student that descends a loss, and a teacher, its moving average, that predicts.

    Both use one model. Between two calls the space holds the *teacher*, so experts are ensembled by
    their teachers. The student is in the domain's state. A failed or skipped update changes
    neither. A subclass calls :meth:`take_student` in its loss, after the teacher's forward passes.

    Args:
        momentum: Weight m of the teacher in ``theta' <- m theta' + (1 - m) theta`` after a step.
            Defaults to 0.999.
        restore: Probability that a step resets a student value to the source (CoTTA, Eq. 5 to 8).
            Defaults to 0.
        seed: Seed of the method's random generator, which is saved with the state. Defaults to 0.
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
        self._teacher: Tensor | None = None  # set while the student is in the space
        super().__init__(*args, **options)

    def adapt(self, inputs: Tensor) -> Tensor:
        """Adapt to a batch, and load the teacher afterwards, also after an error."""
        try:
            return super().adapt(inputs)
        finally:
            if self._teacher is not None:
                self.space.load(self._teacher)
                self._teacher = None

    def take_student(self) -> None:
        """Load the student, and store the teacher for :meth:`average`."""
        self._teacher = self.space.snapshot()
        self.space.load(self.state["student"])

    def step(self) -> None:
        """Step the student, restore some of its values, and average the teacher."""
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
        return super().fresh_domain_state() | {"student": None}

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        return super().inherit_domain_state(state) | {"student": copy.deepcopy(state["student"])}

    def parameter_like_state(self, state: dict[str, Any]) -> list[Tensor]:
        return [] if state["student"] is None else [state["student"]]

    def load_domain_state(self, state: dict[str, Any]) -> None:
        self._teacher = None  # it belongs to the previous domain
        super().load_domain_state(state)
        if state["student"] is None:  # in a fresh domain the student is a copy of the teacher
            state["student"] = self.space.snapshot()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.generator.set_state(state["generator"].cpu())


def as_logits(probabilities: Tensor) -> Tensor:
    """Return logits with these softmax probabilities; finite also for a probability of 0."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def soft_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Return ``-sum_c label_c log softmax(logits)_c`` of every row."""
    return -(label * logits.log_softmax(dim=1)).sum(dim=1)
