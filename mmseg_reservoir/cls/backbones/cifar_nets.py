"""Residual networks for images of 32 x 32, with the keys of RobustBench's checkpoints.

The checkpoints are "Standard" for CIFAR-10 and AugMix (Hendrycks et al., ICLR 2020) for CIFAR-100.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import ReservoirError

EXPANSION = 4


class WideBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its norm and ReLU, with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.convShortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None
        )

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        # A shortcut with a convolution starts from the normalized input, otherwise from the input.
        shortcut = x if self.convShortcut is None else self.convShortcut(active)
        return shortcut + self.conv2(F.relu(self.bn2(self.conv1(active))))


def _wide_group(count: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    blocks = [WideBlock(inputs, outputs, stride)]
    blocks += [WideBlock(outputs, outputs) for _ in range(count - 1)]
    return nn.Sequential(OrderedDict(layer=nn.Sequential(*blocks)))


class WideResNet(nn.Module):
    """WRN-``depth``-``width`` (Zagoruyko and Komodakis, BMVC 2016); 28-10 has 36.48 M parameters.

    RobustBench's "Standard" was trained on images in [0, 1] without normalization.

    Args:
        depth: Number of layers: 4 more than a multiple of 6.
        width: Factor on the channels of a ResNet of 16, 32 and 64 channels.
        classes: Number of classes.
    """

    def __init__(self, depth: int = 28, width: int = 10, classes: int = 10) -> None:
        super().__init__()
        count, rest = divmod(depth - 4, 6)
        if rest or count < 1 or width < 1:
            raise ReservoirError(
                f"depth must be 10, 16, 22, 28, ... and width 1 or more, got {depth} and {width}"
            )
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.block1 = _wide_group(count, 16, 16 * width, stride=1)
        self.block2 = _wide_group(count, 16 * width, 32 * width, stride=2)
        self.block3 = _wide_group(count, 32 * width, 64 * width, stride=2)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.block3(self.block2(self.block1(self.conv1(images))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


class ResNeXtBlock(nn.Module):
    """A bottleneck with a grouped convolution and a shortcut."""

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


def _resnext_stage(
    count: int, inputs: int, planes: int, groups: int, base: int, stride: int
) -> nn.Sequential:
    outputs = planes * EXPANSION
    first = ResNeXtBlock(inputs, planes, groups, base, stride)
    rest = [ResNeXtBlock(outputs, planes, groups, base, 1) for _ in range(count - 1)]
    return nn.Sequential(first, *rest)


class CifarResNeXt(nn.Module):
    """ResNeXt-``depth`` (Xie et al., CVPR 2017); AugMix's has 6.90 M parameters for 100 classes.

    AugMix calls it ResNeXt-29 (32x4d). Its checkpoint has *four* groups, of 32 channels in the
    first stage: the defaults here. The network normalizes images in [0, 1].

    Args:
        depth: Number of layers: 2 more than a multiple of 9.
        groups: Number of groups.
        base: Channels per group in a stage of 64 channels.
        classes: Number of classes.
        mean, std: Mean and standard deviation of each color for the normalization.
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
        self.mean, self.std = mean, std
        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        self.stage_1 = _resnext_stage(count, 64, 64, groups, base, stride=1)
        self.stage_2 = _resnext_stage(count, 256, 128, groups, base, stride=2)
        self.stage_3 = _resnext_stage(count, 512, 256, groups, base, stride=2)
        self.classifier = nn.Linear(256 * EXPANSION, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.bn_1(self.conv_1_3x3((images - self.mean) / self.std)))
        x = self.stage_3(self.stage_2(self.stage_1(x)))
        return self.classifier(x.mean((2, 3)))
