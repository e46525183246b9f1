"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016) for images of 32 x 32.

The names of the parts are those in RobustBench's checkpoints, so that "Standard" for CIFAR-10
loads as it is.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import ReservoirError


class WideBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its norm and ReLU, beside a shortcut.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out.
        stride: Of the first convolution and the shortcut.
    """

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
        # A convolved shortcut shares the first norm; an identity goes around it.
        shortcut = x if self.convShortcut is None else self.convShortcut(active)
        return shortcut + self.conv2(F.relu(self.bn2(self.conv1(active))))


class WideGroup(nn.Module):
    """Blocks of one resolution."""

    def __init__(self, count: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        blocks = [WideBlock(inputs, outputs, stride)]
        blocks += [WideBlock(outputs, outputs) for _ in range(count - 1)]
        self.layer = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class WideResNet(nn.Module):
    """WRN-``depth``-``width``; 28-10 has 36.48 M parameters.

    Takes images in [0, 1] as they are: RobustBench's "Standard" was trained without normalisation.

    Args:
        depth: Layers: 4 more than a multiple of 6.
        width: How many times wider than a ResNet of 16, 32 and 64 channels.
        classes: Of the data set.
    """

    def __init__(self, depth: int = 28, width: int = 10, classes: int = 10) -> None:
        super().__init__()
        count, rest = divmod(depth - 4, 6)
        if rest or count < 1 or width < 1:
            raise ReservoirError(
                f"depth must be 10, 16, 22, 28, ... and width 1 or more, got {depth} and {width}"
            )
        channels = [16 * width, 32 * width, 64 * width]
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.block1 = WideGroup(count, 16, channels[0], stride=1)
        self.block2 = WideGroup(count, channels[0], channels[1], stride=2)
        self.block3 = WideGroup(count, channels[1], channels[2], stride=2)
        self.bn1 = nn.BatchNorm2d(channels[2])
        self.fc = nn.Linear(channels[2], classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.block3(self.block2(self.block1(self.conv1(images))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))
