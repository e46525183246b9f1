"""PeTTA: persistent test-time adaptation in recurring testing scenarios (Hoang et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from ..core.state import copied_to
from ..errors import ReservoirError
from ..option_types import Count, Fraction
from ..params.base import ParamSpace
from ..params.normalization import learning
from ..registry import register
from .base import Forward, OptimizerFactory
from .common.mean_teacher import soft_cross_entropy
from .rotta import Rotta

_TINY = 1e-6  # for features without variance on the source


@register("method", "petta")
class Petta(Rotta):
    """RoTTA, with smaller updates as the features diverge from the source's.

    ``mu_0^y`` and ``S_0^y`` are mean and (diagonal) variance of the source's features of class y.
    ``mu_t^y`` is the moving average of the teacher's features of images labeled y.

    - Divergence: ``gamma^y = 1 - exp(-(mu_t^y - mu_0^y)^T (S_0^y)^-1 (mu_t^y - mu_0^y))`` (Eq. 6),
      before ``mu_t`` includes the new features (Algorithm 1). ``gamma`` is the mean over classes
      in the memory.
    - Rates: ``lambda_t = gamma lambda_0`` and ``alpha_t = (1 - gamma) alpha_0`` (Eq. 7).
    - Loss: ``L_CLS + L_AL + lambda_t R(theta)``. The anchor loss ``L_AL`` is the cross-entropy of
      the student with the source model (Eq. 8), ``R`` the distance from the source's parameters.
    - Teacher: ``theta' <- (1 - alpha_t) theta' + alpha_t theta``.

    The batch X_t of the equations is the memory, without weights of timeliness. Each domain has
    means, memory, statistics, student and teacher. All domains share the source's features, which
    :meth:`prepare` measures with the source model's labels (Appendix E.4). Classes with fewer than
    two source images are left out. For other arguments see :class:`Rotta`.

    Args:
        alpha_0: Largest rate of the teacher. Defaults to 0.001.
        lambda_0: Largest weight of the regularizer: 10 for CIFAR-10/100-C and ImageNet-C, 1 for
            DomainNet. Defaults to 10.
        regularizer: R: ``"cosine"``, ``1 - cos(theta, theta_0)``, or ``"l2"``, the squared
            distance. Defaults to ``"cosine"``.
        classification: L_CLS: ``"self_training"``, the mean of the four cross-entropies between the
            teacher and the student's plain and augmented view (Doebler et al., CVPR 2023; the
            paper's choice except for DomainNet), or ``"cross_entropy"``, RoTTA's. Defaults to
            ``"self_training"``.
        rate: Rate of the normalization statistics and of the means. Defaults to 0.05.
        head: Name of the ``nn.Linear`` that returns the logits. Defaults to the last one.
    """

    # There are no **options of RoTTA, since its nu and alpha are named alpha_0 and rate here.
    def __init__(
        self,
        forward: Forward,
        space: ParamSpace,
        optimizer: OptimizerFactory,
        alpha_0: Fraction = 0.001,
        lambda_0: float = 10.0,
        regularizer: Literal["cosine", "l2"] = "cosine",
        classification: Literal["self_training", "cross_entropy"] = "self_training",
        rate: Fraction = 0.05,
        capacity: Count = 64,
        update_every: Count = 64,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        head: str | None = None,
        augment: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.distance = _DISTANCES[regularizer]
        self.classification = _LOSSES[classification]
        self.features = Features(space.model, head)
        self.alpha_0 = alpha_0
        self.lambda_0 = lambda_0
        self.rate = rate
        self.source_features: dict[str, Tensor] | None = None
        """Mean, variance and count of the source's features, by class."""
        self.divergence = 0.0
        """gamma of the last update."""
        super().__init__(
            forward,
            space,
            optimizer,
            nu=alpha_0,
            alpha=rate,
            capacity=capacity,
            update_every=update_every,
            lambda_t=lambda_t,
            lambda_u=lambda_u,
            augment=augment,
            seed=seed,
        )

    @property
    def needs_source(self) -> bool:
        """Return True: PeTTA needs the features of source images."""
        return True

    @torch.no_grad()
    def prepare(self, source: Iterable[Tensor]) -> None:
        """Measure mean and variance of the source model's features, by predicted class."""
        sums: Tensor | None = None
        with self.space.at(self.source):
            for inputs in source:
                logits, z = self.features(self.forward, inputs)
                z = z.double()
                rows = torch.cat([torch.ones_like(z[:, :1]), z, z.square()], dim=1)
                if sums is None:
                    sums = rows.new_zeros(logits.shape[1], rows.shape[1])
                sums.index_add_(0, logits.argmax(dim=1), rows)
        if sums is None:
            raise ReservoirError("PeTTA got no source batch to measure: give source images")
        count, total, squares = sums.split([1, *[(sums.shape[1] - 1) // 2] * 2], dim=1)
        mean = total / count.clamp_min(1)
        variance = (squares / count.clamp_min(1) - mean.square()).clamp_min(0)
        measured = {"mean": mean, "variance": variance, "count": count[:, 0]}
        self.source_features = {name: value.to(self.source) for name, value in measured.items()}

    def adapt(self, inputs: Tensor) -> Tensor:
        """Adapt as RoTTA; raise an error without the features of the source."""
        if self.source_features is None:
            raise ReservoirError(
                "PeTTA has no features of the source: give it source images (source=..., or "
                "prepare(source_batches) before the stream begins)"
            )
        return super().adapt(inputs)

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            with self.teaching():
                prediction, features = self.features(self.forward, inputs)
            with self.space.at(self.source):
                anchor = self.forward(inputs).softmax(dim=1)
            self._update_divergence(features, prediction.argmax(dim=1))
        views = torch.cat([inputs, self.augment(inputs, self.generator)])
        self.take_student()
        with learning(self.norms.values()):
            plain, augmented = self.forward(views).chunk(2)
        losses = self.classification(plain, augmented, prediction)
        losses = losses + soft_cross_entropy(plain, anchor)
        adapting = slice(self.space.adapting)
        distance = self.distance(self.space.values[adapting], self.source[adapting])
        return prediction, losses.mean() + self.divergence * self.lambda_0 * distance

    def _update_divergence(self, features: Tensor, labels: Tensor) -> None:
        """Set the divergence from the source, and the means that a successful update stores."""
        means, source = self.state["means"], self.source_features
        assert source is not None, "checked in adapt()"
        means = source["mean"].clone() if means is None else means.clone()
        present = [y for y in labels.unique().tolist() if source["count"][y] >= 2]
        drift = means[present] - source["mean"][present]
        square = (drift.square() / (source["variance"][present] + _TINY)).sum(dim=1)
        self.divergence = float((1 - (-square).exp()).mean()) if present else 0.0
        for y in present:
            means[y] = torch.lerp(means[y], features[labels == y].mean(dim=0), self.rate)
        self._means = means

    def average(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Update the means, and average the teacher at the rate alpha_t."""
        self.state["means"] = self._means
        self.momentum = 1 - (1 - self.divergence) * self.alpha_0
        return super().average(student, teacher)

    def fresh_domain_state(self) -> dict[str, Any]:
        return super().fresh_domain_state() | {"means": None}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"known": self.source_features}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.source_features = copied_to(state["known"], self.source.device)


def _self_training(plain: Tensor, augmented: Tensor, teacher: Tensor) -> Tensor:
    label = teacher.softmax(dim=1)
    student = soft_cross_entropy(plain, label) + soft_cross_entropy(augmented, label)
    reverse = soft_cross_entropy(teacher, plain.softmax(dim=1))
    reverse = reverse + soft_cross_entropy(teacher, augmented.softmax(dim=1))
    return (student + reverse) / 4


def _cross_entropy(plain: Tensor, augmented: Tensor, teacher: Tensor) -> Tensor:
    return soft_cross_entropy(augmented, teacher.softmax(dim=1))


_LOSSES = {"self_training": _self_training, "cross_entropy": _cross_entropy}
_DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda values, source: 1 - cosine_similarity(values, source, dim=0),
    "l2": lambda values, source: (values - source).square().sum(),
}


class Features:
    """Features of images: the input of the ``nn.Linear`` that returns the logits."""

    def __init__(self, model: nn.Module, head: str | None = None) -> None:
        linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        if head is None and linear:
            head = list(linear)[-1]
        if head not in linear:
            some = ", ".join(list(linear)[-5:]) or "none"
            raise ReservoirError(
                f"features are the input of the last nn.Linear of a classifier; "
                f"{type(model).__name__} has {f'no such layer {head!r}' if head else 'none'}. Name "
                f"one with head=... (the last layers: {some}) or choose a method that needs no "
                "features"
            )
        self.name = head
        self.head = linear[head]

    def __call__(self, forward: Forward, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits ``(N, C)`` and features ``(N, D)`` of one forward pass."""
        seen: list[Tensor] = []
        with self.head.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
            logits = forward(inputs)
        shapes = [tuple(features.shape) for features in seen]
        if shapes != [(len(inputs), self.head.in_features)] or (
            logits.shape[1:] != torch.Size([self.head.out_features])
        ):
            raise ReservoirError(
                f"{self.name!r} is not the head of this classifier: for {len(inputs)} images it "
                f"got {shapes or 'nothing'}, and logits are {tuple(logits.shape)}. Name the "
                "nn.Linear that returns the logits with head=..."
            )
        return logits, seen[0]
