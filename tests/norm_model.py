"""A model with every kind of normalisation, for tests of what adapts."""

from torch import nn


class NormModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 6))
        self.backbone2 = nn.LayerNorm(6)
        self.head = nn.Sequential(nn.BatchNorm1d(6), nn.GroupNorm(2, 6, affine=False))

    def forward(self, x):
        return self.head(self.backbone2(self.backbone(x)))
