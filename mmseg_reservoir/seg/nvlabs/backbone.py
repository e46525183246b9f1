"""MiT with the epsilons of the layer norms that NVlabs' SegFormer weights were trained with."""

from __future__ import annotations

from typing import Any

from mmengine.registry import MODELS
from mmseg.models.backbones import MixVisionTransformer


@MODELS.register_module()
class NVlabsMixVisionTransformer(MixVisionTransformer):
    """mmseg's MiT with two epsilons instead of one.

    mmseg gives ``norm_cfg`` to all norms. NVlabs use 1e-6 in the blocks and at the end of a stage,
    but torch's default, 1e-5, after each patch embedding and on the spatially reduced keys.

    Args:
        *args: As in mmseg.
        embed_norm_eps: Epsilon of the norms behind a strided convolution: those of the patch
            embeddings and of the reduced keys. ``norm_cfg`` is for the others.
        **kwargs: As in mmseg.
    """

    def __init__(self, *args: Any, embed_norm_eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for patch_embed, blocks, _ in self.layers:
            patch_embed.norm.eps = embed_norm_eps
            for block in blocks:
                if block.attn.sr_ratio > 1:
                    block.attn.norm.eps = embed_norm_eps
