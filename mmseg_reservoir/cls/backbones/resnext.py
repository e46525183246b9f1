"""ResNeXt (Xie et al., CVPR 2017) for images of 32 x 32.

The names of the parts are those in the checkpoints of AugMix (Hendrycks et al., ICLR 2020), which
RobustBench hands on, so that they load as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import ReservoirError

EXPANSION = 4


class ResNeXtBlock(nn.Module):
    """Narrow, convolve in groups, widen; beside a shortcut."""

    def __init__(self, inputs: int, planes: int, groups: int, base: int, stride: int) -> None:
        super().__init__()
        inner = planes * base // 64 * groups
        outputs = planes * EXPANSION
        self.conv_reduce = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn_reduce = nn.BatchNorm2d(inner)
        self.conv_conv = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(inner)
        self.conv_expand = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn_expand = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn_reduce(self.conv_reduce(x)))
        x = F.relu(self.bn(self.conv_conv(x)))
        return F.relu(shortcut + self.bn_expand(self.conv_expand(x)))


class CifarResNeXt(nn.Module):
    """ResNeXt-``depth``; as in AugMix it has 6.90 M parameters for 100 classes.

    AugMix calls it ResNeXt-29 (32x4d). Its checkpoint has *four* groups, of 32 channels in the
    first stage: the defaults here. Takes images in [0, 1] and normalises them itself.

    Args:
        depth: Layers: 2 more than a multiple of 9.
        groups: Cardinality.
        base: Channels of a group where the stage has 64.
        classes: Of the data set.
        mean: Of the normalisation.
        std: Of the normalisation.
    """

    def __init__(
        self,
        depth: int = 29,
        groups: int = 4,
        base: int = 32,
        classes: int = 100,
        mean: float = 0.5,
        std: float = 0.5,
    ) -> None:
        super().__init__()
        count, rest = divmod(depth - 2, 9)
        if rest or count < 1:
            raise ReservoirError(f"depth must be 11, 20, 29, 38, ..., got {depth}")
        # Not in the state: checkpoints have them or not, and they are no weights.
        self.register_buffer("mean", torch.tensor(float(mean)), persistent=False)
        self.register_buffer("std", torch.tensor(float(std)), persistent=False)
        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        inputs = 64
        for number, (planes, stride) in enumerate(((64, 1), (128, 2), (256, 2)), start=1):
            blocks = []
            for place in range(count):
                step = stride if place == 0 else 1
                blocks.append(ResNeXtBlock(inputs, planes, groups, base, step))
                inputs = planes * EXPANSION
            self.add_module(f"stage_{number}", nn.Sequential(*blocks))
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = (images - self.mean) / self.std
        x = F.relu(self.bn_1(self.conv_1_3x3(x)))
        x = self.stage_3(self.stage_2(self.stage_1(x)))
        return self.classifier(x.mean((2, 3)))
