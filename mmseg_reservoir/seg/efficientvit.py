"""EfficientViT for semantic segmentation: the network of the bundled Cityscapes checkpoint.

H. Cai, J. Li, M. Hu, C. Gan and S. Han: "EfficientViT: Multi-Scale Linear Attention for
High-Resolution Dense Prediction", ICCV 2023, https://arxiv.org/abs/2205.14756.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from mmseg.models.decode_heads.decode_head import BaseDecodeHead
from mmseg.models.utils import resize
from torch import Tensor, nn
from torch.nn import functional as F


class ConvUnit(nn.Sequential):
    """A padded convolution with optional batch norm and Hardswish.

    The convolution has a bias where no batch norm follows.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        norm: bool = True,
        act: bool = True,
    ) -> None:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=not norm)
        layers: OrderedDict[str, nn.Module] = OrderedDict(conv=conv)
        if norm:
            layers["norm"] = nn.BatchNorm2d(outputs)
        if act:
            layers["act"] = nn.Hardswish()
        super().__init__(layers)


class InvertedBottleneck(nn.Sequential):
    """A feed-forward block: it expands the channels, mixes depthwise, and projects.

    Args:
        expand: The ratio of inner channels to input channels; 1 omits the expansion.
        norm: Whether batch norm follows each convolution, instead of only the last.
    """

    def __init__(
        self, inputs: int, outputs: int, *, stride: int = 1, expand: int = 4, norm: bool = True
    ) -> None:
        width = inputs * expand
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expand > 1:
            layers["expand"] = ConvUnit(inputs, width, norm=norm)
        layers["mix"] = ConvUnit(width, width, 3, stride=stride, groups=width, norm=norm)
        layers["project"] = ConvUnit(width, outputs, act=False)
        super().__init__(layers)


class Residual(nn.Module):
    """A block with a shortcut: the output is the sum of the block's output and its input."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


class LinearAttention(nn.Module):
    """Multi-scale attention with a cost linear in the number of pixels (Sec. 3.1 of the paper).

    Pixel ``i`` gets ``sum_j v_j w_ij / sum_j w_ij`` with ``w_ij = relu(k_j) . relu(q_i)``.

    Args:
        channels: Channels of input and output.
        head: Channels of a head.
        kernel: Width of the neighborhood that the second scale aggregates.
    """

    def __init__(self, channels: int, head: int = 16, kernel: int = 5) -> None:
        super().__init__()
        width = 3 * channels
        self.head = head
        self.qkv = nn.Conv2d(channels, width, 1, bias=False)
        self.aggregate = nn.Sequential(
            nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width, bias=False),
            nn.Conv2d(width, width, 1, groups=width // head, bias=False),
        )
        self.project = ConvUnit(2 * channels, channels, act=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the attention at two scales, projected to the channels of the input."""
        n, _, height, width = x.shape
        qkv = self.qkv(x)
        qkv = torch.cat([qkv, self.aggregate(qkv)], dim=1)
        # The sums over all pixels exceed the range of half precision.
        qkv = qkv.float().reshape(n, -1, 3 * self.head, height * width)
        q, k, v = qkv.split(self.head, dim=2)
        v = F.pad(v, (0, 0, 0, 1), value=1.0)  # its last row sums the weights
        with torch.autocast(x.device.type, enabled=False):
            out = (v @ k.relu().transpose(-1, -2)) @ q.relu()
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-15)
        return self.project(out.reshape(n, -1, height, width).to(x.dtype))


def attention_block(channels: int, head: int) -> nn.Sequential:
    """Return a block of attention (global context) and a bottleneck (local context)."""
    return nn.Sequential(
        Residual(LinearAttention(channels, head)),
        Residual(InvertedBottleneck(channels, channels, norm=False)),
    )


@MODELS.register_module()
class EfficientViT(BaseModule):
    """The backbone, which returns four maps with strides of 4, 8, 16 and 32.

    Args:
        widths: Channels of the stem and of the four stages. Defaults to those of B0.
        depths: Blocks of the stem and of each stage, without the one that halves the resolution.
        head: Channels of an attention head.
        init_cfg: Initialization, as in mmengine.
    """

    def __init__(
        self,
        widths: Sequence[int] = (8, 16, 32, 64, 128),
        depths: Sequence[int] = (1, 1, 1, 2, 2),
        head: int = 16,
        init_cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        stem, *widths = widths
        n_stem, *depths = depths
        blocks = (Residual(InvertedBottleneck(stem, stem, expand=1)) for _ in range(n_stem))
        self.stem = nn.Sequential(ConvUnit(3, stem, 3, stride=2), *blocks)
        self.stages = nn.ModuleList()
        inputs = stem
        for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            attends = i >= 2  # the two coarse stages
            stage: list[nn.Module] = [InvertedBottleneck(inputs, width, stride=2, norm=not attends)]
            for _ in range(depth):
                stage.append(
                    attention_block(width, head)
                    if attends
                    else Residual(InvertedBottleneck(width, width))
                )
            self.stages.append(nn.Sequential(*stage))
            inputs = width

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the map of each stage, from fine to coarse."""
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return tuple(maps)


@MODELS.register_module()
class EfficientViTHead(BaseDecodeHead):
    """The segmentation head: it sums three maps at the finest size, mixes and classifies.

    Args:
        width: Channels of the sum. ``channels`` is the width of the layer before the classifier.
        depth: Number of bottlenecks that mix the sum.
        **kwargs: Options of mmseg's ``BaseDecodeHead``, with ``in_channels`` from fine to coarse.
    """

    def __init__(self, width: int = 32, depth: int = 1, **kwargs: Any) -> None:
        super().__init__(input_transform="multiple_select", **kwargs)
        self.inputs = nn.ModuleList(ConvUnit(c, width, act=False) for c in self.in_channels)
        blocks = (Residual(InvertedBottleneck(width, width)) for _ in range(depth))
        self.mix = nn.Sequential(*blocks, ConvUnit(width, self.channels))

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return logits at the size of the finest map."""
        maps = self._transform_inputs(inputs)
        size = maps[0].shape[2:]
        # From coarse to fine, as the authors sum them.
        maps = [
            resize(unit(x), size, mode="bicubic", align_corners=self.align_corners)
            for unit, x in reversed(list(zip(self.inputs, maps, strict=True)))
        ]
        return self.cls_seg(self.mix(sum(maps[1:], maps[0])))
