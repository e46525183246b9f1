"""Small networks trained on the digits: once, in less than a minute, then kept in the cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...style_cache import cache_folder, read_safetensors, store
from ..datasets.base import LabelledImages
from ..datasets.digits import digits
from .small_nets import SmallConvNet, SmallViT
from .weights import load_weights

NETS: dict[str, Callable[[], nn.Module]] = {
    "digits_convnet": SmallConvNet,
    "digits_vit": SmallViT,
}
RECIPES: dict[str, Mapping[str, Any]] = {
    "digits_convnet": {"epochs": 12, "lr": 3e-3, "batch_size": 64, "shift": 3, "seed": 0},
    "digits_vit": {"epochs": 25, "lr": 2e-3, "batch_size": 64, "shift": 3, "seed": 0},
}


def trained_net(
    name: str, pretrained: bool = False, checkpoint: str | None = None, **changes: Any
) -> nn.Module:
    """One of `NETS`.

    Args:
        name: Which.
        pretrained: Take the weights of the cache; train them first if they are not there.
        checkpoint: A file with other weights.
        **changes: Of the recipe.
    """
    recipe = {**RECIPES[name], **changes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe["seed"])
        net = NETS[name]()
        if checkpoint is not None:
            load_weights(net, checkpoint)
        elif pretrained:
            _fill(net, name, recipe)
    return net.eval()


def weights_file(name: str, recipe: Mapping[str, Any]) -> Path:
    """Where the weights that a recipe gives are kept; any change of it is another file."""
    shapes = {n: list(t.shape) for n, t in NETS[name]().state_dict().items()}
    about = json.dumps([name, shapes, dict(recipe)], sort_keys=True)
    digest = hashlib.sha256(about.encode("utf-8")).hexdigest()[:12]
    return cache_folder() / f"{name}_{digest}.safetensors"


def _fill(net: nn.Module, name: str, recipe: Mapping[str, Any]) -> None:
    path = weights_file(name, recipe)
    if not path.is_file():
        options = {key: value for key, value in recipe.items() if key != "seed"}
        train(net, digits(train=True), **options)
        store(net.state_dict(), path, f"{name}, trained on scikit-learn's digits")
    net.load_state_dict(read_safetensors(path))


def train(
    net: nn.Module,
    data: LabelledImages,
    epochs: int,
    lr: float,
    batch_size: int = 64,
    shift: int = 0,
) -> None:
    """Cross-entropy, AdamW, one cycle of the learning rate; draws from torch's generator.

    Args:
        net: The network.
        data: What to learn from.
        epochs: How often.
        lr: The largest learning rate.
        batch_size: Images of a step.
        shift: Move each batch by up to so many pixels, sideways and up or down.
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
