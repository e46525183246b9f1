"""The parts of NVlabs' SegFormer that differ from mmseg's: two epsilons, and the head."""

from __future__ import annotations

from typing import Any

import torch
from mmcv.cnn import ConvModule
from mmengine.registry import MODELS
from mmseg.models.backbones import MixVisionTransformer
from mmseg.models.decode_heads.decode_head import BaseDecodeHead
from mmseg.models.utils import resize
from torch import Tensor, nn


@MODELS.register_module()
class NVlabsMixVisionTransformer(MixVisionTransformer):
    """mmseg's MiT with two epsilons instead of one.

    mmseg uses ``norm_cfg`` for all norms. NVlabs use 1e-6 in the blocks and at the end of a stage,
    but 1e-5, torch's default, after each patch embedding and on the spatially reduced keys.

    Args:
        *args: Arguments of mmseg's MiT.
        embed_norm_eps: Epsilon of the norms of patch embeddings and reduced keys. ``norm_cfg``
            sets that of the others.
        **kwargs: Options of mmseg's MiT.
    """

    def __init__(self, *args: Any, embed_norm_eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for patch_embed, blocks, _ in self.layers:
            patch_embed.norm.eps = embed_norm_eps
            for block in blocks:
                if block.attn.sr_ratio > 1:
                    block.attn.norm.eps = embed_norm_eps


@MODELS.register_module()
class NVlabsSegformerHead(BaseDecodeHead):
    """The all-MLP head of SegFormer (https://arxiv.org/abs/2105.15203) as NVlabs trained it.

    Each feature map is projected linearly and resized to the first. A 1x1 convolution with batch
    norm and ReLU fuses them. mmseg's head differs: it has batch norm and ReLU after every
    projection, 256 channels for all sizes, and the opposite order of the maps.

    Args:
        channels: Width of the projections and of the fusion; NVlabs use 768 from B2 to B5.
        **kwargs: Options of mmseg's ``BaseDecodeHead``, with ``in_channels`` from fine to coarse.
    """

    def __init__(self, channels: int = 768, **kwargs: Any) -> None:
        super().__init__(input_transform="multiple_select", channels=channels, **kwargs)
        self.projections = nn.ModuleList(nn.Conv2d(c, channels, 1) for c in self.in_channels)
        self.fuse = ConvModule(
            channels * len(self.in_channels),
            channels,
            kernel_size=1,
            norm_cfg=self.norm_cfg,
            act_cfg=self.act_cfg,
        )

    def forward(self, inputs: list[Tensor]) -> Tensor:
        """Return logits at the resolution of the first feature map."""
        maps = self._transform_inputs(inputs)
        first, *others = (project(x) for project, x in zip(self.projections, maps, strict=True))
        others = [
            resize(x, first.shape[2:], mode="bilinear", align_corners=self.align_corners)
            for x in others
        ]
        # From coarse to fine, as the input channels of NVlabs' fusion weights.
        return self.cls_seg(self.fuse(torch.cat([*reversed(others), first], dim=1)))
