"""A small vision transformer and prompt methods around it, for tests."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from mmseg_reservoir.methods import AdaptationMethod
from mmseg_reservoir.params.prompt import prompt_space


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class SmallVit(nn.Module):
    """Images ``(N, 3, 8, 8)`` to logits ``(N, 5)``: four patches, two blocks.

    Args:
        pool: ``"token"`` classifies the class token, ``"mean"`` the mean of the patches and has no
            class token.
    """

    def __init__(self, pool: str = "token", dim: int = 12) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim)) if pool == "token" else None
        self.pos_embed = nn.Parameter(torch.randn(1, 4 + (pool == "token"), dim))
        self.blocks = nn.ModuleList([Block(dim), Block(dim)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 5)

    def tokens(self, images: Tensor) -> Tensor:
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        return x + self.pos_embed

    def forward(self, images: Tensor) -> Tensor:
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x.mean(dim=1) if self.cls_token is None else x[:, 0])


def make_vit(pool: str = "token", dtype: torch.dtype = torch.float32) -> SmallVit:
    """Equal calls give equal nets."""
    torch.manual_seed(0)
    return SmallVit(pool).eval().to(dtype)


def prompt_method(
    cls: type[AdaptationMethod], lr: float = 0.05, dtype: torch.dtype = torch.float32, **options
) -> AdaptationMethod:
    """A method over three prompts of a new small transformer; equal calls give equal methods."""
    net = make_vit(dtype=dtype)
    return cls(net, prompt_space(net, count=3), partial(torch.optim.AdamW, lr=lr), **options)
