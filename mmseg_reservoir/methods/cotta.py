"""CoTTA: continual test-time domain adaptation (Wang et al., CVPR 2022), for segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..core.params import ParamSpace
from ..errors import ReservoirError
from ..options import choose
from .base import AdaptationMethod, Forward, OptimizerFactory, register_method
from .views import RATIOS, View, make_views, resized, scaled

_SCORES = ("composite", "mean", "single")


@register_method("cotta")
class Cotta(AdaptationMethod):
    """A student learns from the labels of its own moving average, the teacher.

    Three networks, one model: the student's and the teacher's adapted values belong to the domain,
    the anchor's are the source's, and whichever has to run is loaded. Between two calls the
    space holds the *teacher*, since it is the one that predicts: so an ensemble of experts
    is one of teachers. The student waits in the domain's state.

    - Teacher: ``theta' <- m theta' + (1 - m) theta`` after every step of the student.
    - Label: where the anchor is confident on the image as it is, the teacher's prediction for the
      image as it is; elsewhere its mean over the views (their softmax, at the size of the labels).
    - Loss: cross-entropy of the student on the image as it is with the hard label.
    - Restoration: after the step every value goes back to the source with probability ``restore``.

    ``CoTTA*`` of the ReservoirTTA paper adapts the affine parameters of normalisation layers, and
    has ``restore=0``, the default. Full CoTTA: ``params=dict(type="all")`` and ``restore=0.01``.

    Args:
        forward: The model, as a function from images to logits ``(N, C, h, w)``.
        space: The parameters that adapt.
        optimizer: Makes the optimizer.
        momentum: m of the teacher.
        confidence: The anchor is confident where its largest probability is above this.
        ratios: Scales of the views.
        flip: Whether each scale is also seen mirrored.
        label_scale: Size of the labels over that of the inputs: 2 for ACDC fed at half size.
        score: What is returned as the prediction: the ``"composite"`` that the labels come from,
            the ``"mean"`` over the views, or the ``"single"`` image as it is.
        restore: Probability of restoration.
        seed: Of the restoration's random generator, which is saved with the state.
    """

    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory,
        momentum: float = 0.999,
        confidence: float = 0.69,
        ratios: Sequence[float] = RATIOS,
        flip: bool = True,
        label_scale: float = 1.0,
        score: str = "composite",
        restore: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.momentum = momentum
        self.confidence = confidence
        self.views = make_views(ratios, flip)
        self.label_scale = label_scale
        self.score = choose(score, {name: name for name in _SCORES}, "score of cotta")
        self.restore = restore
        self.generator = torch.Generator().manual_seed(seed)
        if not (self.views and 0 <= momentum <= 1 and 0 <= restore <= 1 and label_scale > 0):
            raise ReservoirError(
                "cotta needs one ratio or more, momentum and restore in [0, 1] and a positive "
                f"label_scale, got {list(ratios)}, {momentum}, {restore} and {label_scale}"
            )
        super().__init__(forward, space, optimizer)

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction, and the student's cross-entropy with the composite label."""
        with torch.no_grad():
            single = self._single(inputs)
            mean = self._mean(inputs, single)
            composite = self._compose(inputs, single, mean)
        prediction = {"composite": composite, "mean": mean, "single": single}[self.score]
        self._teacher = self.space.snapshot()
        self.space.load(self.state["student"])
        logits = resized(self.forward(inputs), composite.shape[-2:])
        return _as_logits(prediction), cross_entropy(logits, composite.argmax(dim=1))

    def update(self, inputs: Tensor, loss: Tensor) -> None:
        """The student's step, the restoration, and the teacher's average."""
        super().update(inputs, loss)
        student = self.space.snapshot()
        if self.restore:
            chance = torch.rand(len(student), generator=self.generator)
            student = torch.where((chance < self.restore).to(student.device), self.source, student)
        self.state["student"] = student
        self.space.load(torch.lerp(student, self._teacher, self.momentum))

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """What is scored, with the current parameters as the teacher."""
        single = self._single(inputs)
        if self.score == "single":
            return _as_logits(single)
        mean = self._mean(inputs, single)
        if self.score == "mean":
            return _as_logits(mean)
        return _as_logits(self._compose(inputs, single, mean))

    def _single(self, inputs: Tensor) -> Tensor:
        return View().probabilities(self.forward, inputs, self._label_size(inputs))

    def _mean(self, inputs: Tensor, single: Tensor) -> Tensor:
        total = torch.zeros_like(single)
        for view in self.views:
            seen = view == View()  # that one has been computed
            size = single.shape[-2:]
            total += single if seen else view.probabilities(self.forward, inputs, size)
        return total / len(self.views)

    def _compose(self, inputs: Tensor, single: Tensor, mean: Tensor) -> Tensor:
        # The anchor sees one view, not fourteen: its confidence on the others is not asked for.
        with self.space.at(self.source):
            anchor = self._single(inputs)
        confident = anchor.amax(dim=1, keepdim=True) > self.confidence
        return torch.where(confident, single, mean)

    def _label_size(self, inputs: Tensor) -> tuple[int, ...]:
        return scaled(inputs.shape[-2:], self.label_scale)

    # The student is part of the domain's state; None stands for "as the parameters".

    def fresh_domain_state(self) -> dict[str, Any]:
        """No student yet: it begins as the teacher."""
        return super().fresh_domain_state() | {"student": None}

    def inherit_domain_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """A clone goes on with a copy of the student, whose the optimizer's moments are."""
        student = state["student"]
        student = None if student is None else student.clone()
        return super().inherit_domain_state(state) | {"student": student}

    def load_domain_state(self, state: dict[str, Any]) -> None:
        """Go on with another domain's state."""
        super().load_domain_state(state)
        if state["student"] is None:
            state["student"] = self.space.snapshot()

    def state_dict(self) -> dict[str, Any]:
        """The counts, and where the random generator is."""
        return super().state_dict() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])


def _as_logits(probabilities: Tensor) -> Tensor:
    """Logits of which these are the softmax; finite also where a probability is 0."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
