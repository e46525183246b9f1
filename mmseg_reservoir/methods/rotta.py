"""RoTTA: robust test-time adaptation in dynamic scenarios (Yuan et al., CVPR 2023)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..core.losses import entropy
from ..errors import ReservoirError
from ..option_types import Count, Fraction
from ..params.base import ParamSpace
from ..params.normalization import BlendedBatchNorm, blend, carry_statistics, learning
from ..registry import construct, register
from .base import Forward, OptimizerFactory
from .common.augment import Augment
from .common.bank import BalancedBank
from .common.mean_teacher import MeanTeacher, soft_cross_entropy


@register("method", "rotta")
class Rotta(MeanTeacher):
    """Mean teacher on a memory of the stream, with robust normalization.

    Each domain has a memory, statistics, a student and a teacher. A cloned domain starts with an
    empty memory.

    - Normalization: by statistics that follow the memory slowly (:func:`robust_norms`), separately
      for the images of the teacher and those of the student.
    - Memory: recent samples with certain predictions, balanced over the teacher's labels
      (:class:`BalancedBank`).
    - Loss: every ``update_every`` samples, the mean over the memory of
      ``E(A) * -sum_c p_teacher(c | x) log p_student(c | augmented x)``. The timeliness of age A is
      ``E(A) = exp(-A / N) / (1 + exp(-A / N))``. ``counts["skipped"]`` counts other batches.
    - Teacher: ``theta' <- (1 - nu) theta' + nu theta``. It predicts.

    Args:
        forward: Function from images to logits ``(N, C)``, the model. Its BatchNorm layers need the
            running statistics of the source, and are replaced.
        space: The parameters that adapt, in the paper the affine ones of normalization.
        optimizer: Factory of the optimizer.
        nu: Rate of the teacher. Defaults to 0.001.
        alpha: Rate of the statistics. Defaults to 0.05.
        capacity: Number N of images in the memory. Defaults to 64.
        update_every: Number of samples between updates. Defaults to 64.
        lambda_t: Weight of the age in the memory. Defaults to 1.
        lambda_u: Weight of the uncertainty in the memory. Defaults to 1.
        augment: Options of :class:`Augment`.
        seed: Seed of the augmentations; the generator is saved with the state. Defaults to 0.
    """

    supports = ("images",)
    statistics = "running"
    needs_every_batch = "it stores images of every batch, and decides when to update"

    # There are no **options of MeanTeacher: its momentum is 1 - nu, and nothing is restored.
    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory,
        nu: Fraction = 0.001,
        alpha: Fraction = 0.05,
        capacity: Count = 64,
        update_every: Count = 64,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        augment: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.bank = BalancedBank(capacity, lambda_t, lambda_u)
        self.update_every = update_every
        self.augment = construct(Augment, augment or {}, "method.augment")
        self.norms = robust_norms(space, alpha)
        super().__init__(forward, space, optimizer, momentum=1 - nu, seed=seed)

    def adapt(self, inputs: Tensor) -> Tensor:
        """Predict a batch, add its samples to the memory, and update when one is due."""
        prediction = self.predict(inputs)
        labels, uncertainties = prediction.argmax(dim=1).tolist(), entropy(prediction).tolist()
        learned = False
        for image, label, uncertainty in zip(inputs, labels, uncertainties, strict=True):
            if math.isfinite(uncertainty):  # do not store a sample with a broken prediction
                self.bank.add(self.state["bank"], image, label, uncertainty, prediction.shape[1])
            self.state["seen"] += 1
            if self.state["seen"] % self.update_every == 0 and self.state["bank"]:
                super().adapt(torch.stack([item["image"] for item in self.state["bank"]]))
                learned = True
        self.counts["skipped"] += not learned
        return prediction

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), self.teaching():
            prediction = self.forward(inputs)
        self.take_student()
        with learning(self.norms.values()):
            logits = self.forward(self.augment(inputs, self.generator))
        ages = self.bank.ages(self.state["bank"]).to(logits)
        losses = soft_cross_entropy(logits, prediction.softmax(dim=1))
        return prediction, (timeliness(ages) * losses).mean()

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """Let forward passes move the statistics, which an update copies to the teacher."""
        with self.space.preserve_buffers(), learning(self.norms.values()):
            yield
            self._statistics = self.space.buffers.clone()

    def average(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Return the moving average of the parameters, with the teacher's statistics."""
        averaged = super().average(student, teacher)
        averaged[self.space.adapting :] = self._statistics
        return averaged

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        logits = super().predict(inputs)
        if logits.ndim != 2:
            raise ReservoirError(
                f"{type(self).__name__} stores images by class and needs logits (N, C), got "
                f"{tuple(logits.shape)}: use it for classifiers"
            )
        return logits

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"bank": [], "seen": 0}


def timeliness(ages: Tensor) -> Tensor:
    """Return ``exp(-A) / (1 + exp(-A))`` of ages A, in fractions of the capacity."""
    return (-ages).sigmoid()


def robust_norms(space: ParamSpace, rate: float) -> dict[str, BlendedBatchNorm]:
    """Replace all BatchNorm layers by robust ones (RoTTA, Sec. 3.2); return these by name.

    Within :func:`learning` they normalize by a blend of running and batch statistics. The blend
    becomes the running statistics, which are buffers of the space.

    Args:
        space: The parameters that adapt, before an optimizer holds its values.
        rate: The share of the batch in the blend.
    """
    norms = [m for m in space.model.modules() if isinstance(m, BlendedBatchNorm)]
    if any(norm.always for norm in norms):
        raise ReservoirError(
            "robust normalization blends statistics itself, but the model blends them already: "
            'build the method with statistics="running"'
        )
    layers = blend(space.model, rate, always=False)
    carry_statistics(space, layers)
    return layers
