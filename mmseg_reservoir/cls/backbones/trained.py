"""Small networks trained on the digits: their weights are shipped, this is how they were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...datasets.base import LabelledImages
from ...datasets.digits import digits
from ...files import shipped, write_tensors
from .small_nets import SmallConvNet, SmallViT
from .weights import load_weights

NETS: dict[str, Callable[[], nn.Module]] = {
    "digits_convnet": SmallConvNet,
    "digits_vit": SmallViT,
}
RECIPES: dict[str, Mapping[str, Any]] = {
    "digits_convnet": {"epochs": 12, "lr": 3e-3, "batch_size": 64, "shift": 3},
    "digits_vit": {"epochs": 25, "lr": 2e-3, "batch_size": 64, "shift": 3},
}
SEED = 0


def trained_net(name: str, pretrained: bool = False, checkpoint: str | None = None) -> nn.Module:
    """One of `NETS`; ``pretrained`` are the weights that come with this project."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = NETS[name]()
    if checkpoint is not None or pretrained:
        load_weights(net, checkpoint or shipped(f"checkpoints/{name}.safetensors"))
    return net.eval()


def train_net(name: str, **changes: Any) -> nn.Module:
    """Train one of `NETS` on the digits, by its recipe with ``changes``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = NETS[name]()
        NETS[name]()  # the random numbers behind it are those that the shipped weights come from
        train(net, digits(train=True), **{**RECIPES[name], **changes})
    return net


def write_net(net: nn.Module, name: str, folder: str | Path) -> Path:
    """Store a network of :func:`train_net` as it is shipped, with its recipe."""
    origin = {
        "net": name,
        "data": "scikit-learn's digits, less the 200 of the stream",
        "recipe": {**RECIPES[name], "seed": SEED},
        "error": round(error(net, digits(train=False)), 2),
        "torch": torch.__version__,
    }
    path = Path(folder) / f"{name}.safetensors"
    return write_tensors(path, net.state_dict(), {"about": json.dumps(origin)})


def train(
    net: nn.Module,
    data: LabelledImages,
    epochs: int,
    lr: float,
    batch_size: int = 64,
    shift: int = 0,
) -> None:
    """Cross-entropy, AdamW, one cycle of the learning rate; draws from torch's generator.

    The largest learning rate is ``lr``; each batch is moved by up to ``shift`` pixels, sideways and
    up or down.
    """
    images, labels = data.batch(range(len(data)))
    steps = max(1, epochs * len(data) // batch_size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=max(steps, 2))
    net.train()
    for _ in range(steps):
        chosen = torch.randint(len(data), (batch_size,))
        by = torch.randint(-shift, shift + 1, (2,)).tolist()
        loss = F.cross_entropy(net(images[chosen].roll(by, (2, 3))), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()


@torch.no_grad()
def error(net: Callable[[Tensor], Tensor], data: LabelledImages) -> float:
    """Percent of images that a network gets wrong."""
    images, labels = data.batch(range(len(data)))
    return 100 * float((net(images).argmax(dim=1) != labels).float().mean())
