"""RoTTA: robust test-time adaptation in dynamic scenarios (Yuan et al., CVPR 2023)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from ..config.schema import construct
from ..core.losses import entropy
from ..errors import ReservoirError
from ..params.base import ParamSpace
from ..params.normalization import BlendedBatchNorm, blend, carry_statistics, learning
from ..registry import register
from .base import Forward, OptimizerFactory
from .common.augment import Augment
from .common.bank import BalancedBank
from .common.mean_teacher import MeanTeacher, soft_cross_entropy


@register("method", "rotta")
class Rotta(MeanTeacher):
    """A student learns from its teacher on a memory of the stream, not on the batch at hand.

    - Normalisation: by statistics that follow the memory slowly (:class:`RobustNorms`).
    - Memory: balanced over the teacher's labels, timely and certain (:class:`BalancedBank`).
    - Every ``update_every`` samples the student steps on the mean over the memory of
      ``E(A) * -sum_c p_teacher(c | x) log p_student(c | augmented x)``, where the timeliness
      ``E(A) = exp(-A / N) / (1 + exp(-A / N))`` of a sample of age A makes old ones count less.
    - Teacher: ``theta' <- (1 - nu) theta' + nu theta``; it predicts. Its statistics and the
      student's are each those of the images that it sees.

    Everything but the random generator belongs to the domain: with a reservoir every expert has a
    memory (``capacity`` images), statistics, student and teacher of its own. A clone starts with
    an empty memory. ``counts["skipped"]`` counts batches that were remembered without an update.

    Args:
        forward: The model, as a function from images to logits ``(N, C)``. Its BatchNorm layers
            must keep the running statistics of the source, and are replaced in it.
        space: The parameters that adapt: affine ones of normalisation in the paper.
        optimizer: Makes the optimizer.
        nu: Rate of the teacher.
        alpha: Rate of the statistics.
        capacity: N, the number of images in the memory.
        update_every: The number of samples between updates.
        lambda_t: Weight of the age in the memory's choice.
        lambda_u: Weight of the uncertainty in it.
        augment: Options of :class:`Augment`.
        seed: Of the augmentations; the generator is saved with the state.
    """

    supports = ("images",)
    statistics = "running"
    needs_every_batch = "it remembers images of every batch, and says itself when to update"

    # No **options of the teacher: its momentum is 1 - nu here, and nothing is restored.
    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory,
        nu: float = 0.001,
        alpha: float = 0.05,
        capacity: int = 64,
        update_every: int = 64,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        augment: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if min(capacity, update_every) < 1 or not (0 <= nu <= 1 and 0 <= alpha <= 1):
            raise ReservoirError(
                "a memory needs capacity and update_every of at least 1, and rates of teacher and "
                f"statistics in [0, 1], got {capacity}, {update_every}, {nu} and {alpha}"
            )
        self.bank = BalancedBank(capacity, lambda_t, lambda_u)
        self.update_every = update_every
        self.augment = construct(Augment, augment or {}, "method.augment")
        self.norms = RobustNorms(space, alpha)
        super().__init__(forward, space, optimizer, momentum=1 - nu, seed=seed)

    def adapt(self, inputs: Tensor) -> Tensor:
        """Predict a batch and remember it sample by sample; learn as often as it is time to."""
        prediction = self.predict(inputs)
        labels, uncertainties = prediction.argmax(dim=1).tolist(), entropy(prediction).tolist()
        learned = False
        for image, label, uncertainty in zip(inputs, labels, uncertainties, strict=True):
            if math.isfinite(uncertainty):  # what broke the model must not be learned from
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
        with self.norms.learning():
            logits = self.forward(self.augment(inputs, self.generator))
        ages = self.bank.ages(self.state["bank"]).to(logits)
        losses = soft_cross_entropy(logits, prediction.softmax(dim=1))
        return prediction, (timeliness(ages) * losses).mean()

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """Within this context passes move the teacher's statistics, for good once it is updated."""
        with self.space.preserve_buffers(), self.norms.learning():
            yield
            self._statistics = self.space.buffers.clone()

    def average(self, student: Tensor, teacher: Tensor) -> Tensor:
        """The moving average of the parameters, with the teacher's own statistics."""
        averaged = super().average(student, teacher)
        averaged[self.space.adapting :] = self._statistics
        return averaged

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        logits = super().predict(inputs)
        if logits.ndim != 2:
            raise ReservoirError(
                f"{type(self).__name__} remembers images by their class and needs logits (N, C), "
                f"got {tuple(logits.shape)}: it is for classifiers"
            )
        return logits

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"bank": [], "seen": 0}


def timeliness(ages: Tensor) -> Tensor:
    """``exp(-A) / (1 + exp(-A))`` of ages A as shares of the memory's capacity."""
    return (-ages).sigmoid()


class RobustNorms:
    """Robust batch normalisation (RoTTA, Sec. 3.2) of all BatchNorm layers of a model.

    Their statistics become part of the space. They follow the stream slowly: the layers normalise
    by their blend with those of the batch where they learn, elsewhere by them as they are.

    Args:
        space: The parameters that adapt; before an optimizer holds its values.
        rate: The share of a batch in the statistics.
    """

    def __init__(self, space: ParamSpace, rate: float) -> None:
        blending = [m for m in space.model.modules() if isinstance(m, BlendedBatchNorm)]
        if any(layer.always for layer in blending):
            raise ReservoirError(
                "robust normalisation blends statistics by itself, but the model has been told to "
                'blend them already: build the method with statistics="running"'
            )
        self.layers = blend(space.model, rate, always=False)
        carry_statistics(space, self.layers)

    def learning(self) -> AbstractContextManager[None]:
        """Within this context every forward pass moves the statistics."""
        return learning(self.layers.values())
