"""Networks that want normalised images, in a stream of plain ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalised(nn.Module):
    """Normalises images in [0, 1], then calls a network.

    So every backbone takes the same images, and the style sees what the stream has.

    Args:
        net: The network.
        mean: One per channel.
        std: One per channel.
    """

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.net((images - self.mean) / self.std)
