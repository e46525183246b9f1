"""What sixteen experts of a ResNet-50 cost."""

import torch
from torch import Tensor, nn

from mmseg_reservoir.cls import AdaptiveClassifier

K_MAX = 16


class NormsOfResNet50(nn.Module):
    """The BatchNorm layers of a ResNet-50 and next to nothing else: the rest is shared anyway."""

    def __init__(self):
        super().__init__()
        widths = [64]
        for width, blocks in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True):
            for block in range(blocks):
                widths += [width, width, 4 * width] + ([4 * width] if block == 0 else [])
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.head = nn.Linear(len(widths), 10)

    def forward(self, x):
        features = [
            norm(x.mean(1, keepdim=True).expand(-1, norm.num_features, -1, -1))
            .square()
            .mean((1, 2, 3))
            for norm in self.norms
        ]
        return self.head(torch.stack(features, dim=1))


def tensors_in(value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors_in(item)] if isinstance(value, list) else []


def test_sixteen_experts_cost_sixteen_times_parameters_and_moments():
    model = AdaptiveClassifier(
        NormsOfResNet50(), "tent", reservoir=dict(k_max=K_MAX, router=dict(type="oracle"))
    )
    assert len(model.method.space) == 53_120  # the affine numbers of a ResNet-50
    for number in range(2 * (K_MAX - 1)):
        model(torch.rand(4, 3, 4, 4), domain=f"domain {number % (K_MAX - 1)}")
    assert model.last.k == K_MAX
    reservoir = model.pipeline.reservoir
    held = [reservoir._matrix, reservoir.source]
    held += tensors_in([reservoir.checkout(k)[1] for k in range(K_MAX)])
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
    own = len(model.method.space) * 4
    assert sum(storages.values()) < 1.1 * K_MAX * 3 * own
    # Fifteen experts have adapted: a set of parameters and two moments each.
    assert sum(storages.values()) > (K_MAX + 2 * (K_MAX - 1)) * own
