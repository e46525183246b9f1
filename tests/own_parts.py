"""Parts as a user would write them, in a file of their own, named in ``custom_imports``."""

from __future__ import annotations

import torch
from torch import nn

from mmseg_reservoir import register
from mmseg_reservoir.core import Route
from mmseg_reservoir.methods.common.mean_teacher import MeanTeacher, as_logits, soft_cross_entropy
from mmseg_reservoir.routing import Router


@register("router", "nearest")
class NearestRouter(Router):
    """A style far from all before it founds a domain that never moves."""

    def __init__(self, k_max: int = 16, radius: float = 2.0) -> None:
        super().__init__(k_max)
        self.radius = radius

    def fit(self, calibration):
        self.means = calibration.centroid[None]
        self.tau = self.radius * float((calibration.styles - self.means).norm(dim=1).mean())
        return self

    @property
    def k(self):
        return len(self.means)

    def route(self, style, *, may_open=True, domain=None):
        distances = (self.means - style.cpu()).norm(dim=1)
        is_new = bool(may_open and self.k < self.k_max and distances.min() > self.tau)
        if is_new:
            self.means = torch.cat([self.means, style.cpu()[None]])
        index = self.k - 1 if is_new else int(distances.argmin())
        return Route(index, torch.eye(self.k)[index], is_new)

    def state_dict(self):
        return {"means": self.means, "tau": self.tau}

    def load_state_dict(self, state):
        self.means, self.tau = state["means"], state["tau"]


@register("statistic", "extent")
def extent(features: torch.Tensor) -> torch.Tensor:
    """How far apart the largest and the smallest value of a channel are, ``(C,)``."""
    return features.amax(dim=(0, 2, 3)) - features.amin(dim=(0, 2, 3))


@register("method", "agree")
class Agree(MeanTeacher):
    """The student follows what its teacher says of the same images."""

    def loss(self, inputs):
        with torch.no_grad():
            label = self.forward(inputs).softmax(dim=1)
        self.take_student()
        return as_logits(label), soft_cross_entropy(self.forward(inputs), label).mean()


@register("params", "biases")
def biases(model: nn.Module, under: str = "") -> dict[str, nn.Parameter]:
    """Every bias below a name."""
    named = model.named_parameters()
    return {name: p for name, p in named if name.startswith(under) and name.endswith(".bias")}
