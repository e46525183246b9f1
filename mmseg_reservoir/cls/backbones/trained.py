"""Small networks for digits of 32 x 32 pixels: a convolutional network and a transformer.

``reservoir train-digits`` makes their bundled weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...io.files import shipped
from .weights import load_weights


class SmallConvNet(nn.Module):
    """Four convolutions with BatchNorm, the first with ``width`` channels: 66 k parameters."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for outputs, stride in ((width, 2), (2 * width, 1), (4 * width, 2), (4 * width, 1)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(2 * images - 1).mean((2, 3)))


class TransformerBlock(nn.Module):
    """Attention and a perceptron, each after a LayerNorm and with a shortcut."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        normal = self.norm1(tokens)
        tokens = tokens + self.attn(normal, normal, normal, need_weights=False)[0]
        return tokens + self.mlp(self.norm2(tokens))


class SmallViT(nn.Module):
    """A vision transformer (Dosovitskiy et al., ICLR 2021) with the keys of timm.

    Each square of ``patch`` x ``patch`` pixels is a token of ``dim`` channels.
    """

    def __init__(
        self,
        side: int = 32,
        patch: int = 8,
        dim: int = 48,
        depth: int = 3,
        heads: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 1 + (side // patch) ** 2, dim))
        self.blocks = nn.Sequential(*(TransformerBlock(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patch_embed(2 * images - 1).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], dim=1)
        return self.head(self.norm(self.blocks(tokens + self.pos_embed))[:, 0])


NETS: dict[str, Callable[[], nn.Module]] = {
    "digits_convnet": SmallConvNet,
    "digits_vit": SmallViT,
}
SEED = 0


def trained_net(name: str, pretrained: bool = False, checkpoint: str | None = None) -> nn.Module:
    """Build one of `NETS`, with the bundled weights if ``pretrained``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = NETS[name]()
    if checkpoint is not None or pretrained:
        load_weights(net, checkpoint or shipped(f"checkpoints/{name}.safetensors"))
    return net.eval()
