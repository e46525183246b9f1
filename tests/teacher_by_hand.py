"""An independent teacher and student with robust normalisation, for tests of RoTTA and PeTTA."""

from __future__ import annotations

import torch
from small_net import make_classifier
from torch import Tensor, nn

from mmseg_reservoir.params import norm_affine

DOUBLE = torch.float64


def batches(count: int, n: int = 4, seed: int = 3) -> list[Tensor]:
    """Batches of images in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(n, 3, 8, 8, generator=generator, dtype=DOUBLE) for _ in range(count)]


class ByHand:
    """Two small classifiers, each with statistics of its own, that follow them by ``rate``."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.teacher, self.student = make_classifier(DOUBLE), make_classifier(DOUBLE)
        affine = list(norm_affine(self.student).values())
        self.optimizer = torch.optim.Adam(affine, lr=0.05)

    def learn(self, net: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of a net whose BatchNorm, layer 4, first moves its statistics."""
        h, norm = net[:4](x), net[4]
        mean = (1 - self.rate) * norm.running_mean + self.rate * h.mean(dim=(0, 2, 3))
        var = (1 - self.rate) * norm.running_var
        var = var + self.rate * h.var(dim=(0, 2, 3), unbiased=False)
        norm.running_mean.copy_(mean.detach())
        norm.running_var.copy_(var.detach())
        shape = (1, 8, 1, 1)
        h = (h - mean.view(shape)) / (var.view(shape) + norm.eps).sqrt()
        features = net[5:8](h * norm.weight.view(shape) + norm.bias.view(shape))
        return net[8](features), features

    def update(self, loss: Tensor, rate: float) -> None:
        """The student's step, and the teacher's move towards it."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
        with torch.no_grad():
            for old, new in pairs:
                old.copy_((1 - rate) * old + rate * new)

    def assert_teacher_is_in(self, space) -> None:
        """Compare every value of a space with the teacher's parameter or buffer of that name."""
        ours = self.teacher.state_dict()
        for name, value in zip(space.names, space.split(space.values.detach()), strict=True):
            torch.testing.assert_close(value, ours[name], rtol=1e-6, atol=1e-7)
