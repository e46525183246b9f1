"""Train the two small networks of the digits.

Those in checkpoints/ were trained by it.

reservoir train-digits --out work_dirs/digits

Another processor rounds sums differently, so its weights differ.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command_line import Verb
from .options import shared

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..datasets.base import LabeledImages

RECIPES: dict[str, Mapping[str, Any]] = {
    "digits_convnet": {"epochs": 12, "lr": 3e-3, "batch_size": 64, "shift": 3},
    "digits_vit": {"epochs": 25, "lr": 2e-3, "batch_size": 64, "shift": 3},
}
"""Arguments of :func:`train` for each network."""


def train_net(name: str, data: LabeledImages, **changes: Any) -> nn.Module:
    """Return a network that is trained by its recipe with ``changes``."""
    import torch

    from ..cls.backbones.trained import NETS, SEED

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = NETS[name]()
        NETS[name]()  # draws the random numbers that the bundled weights were trained after
        train(net, data, **{**RECIPES[name], **changes})
    return net


def train(
    net: nn.Module,
    data: LabeledImages,
    epochs: int,
    lr: float,
    batch_size: int = 64,
    shift: int = 0,
) -> None:
    """Train a network in place, by cross-entropy and AdamW, with torch's global generator.

    ``lr`` is the largest learning rate of the one-cycle schedule. Batches are shifted by up to
    ``shift`` pixels.
    """
    import torch
    from torch.nn import functional as F

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


def error(net: Callable[[Tensor], Tensor], data: LabeledImages) -> float:
    """Return the error of a network in percent."""
    import torch

    images, labels = data.batch(range(len(data)))
    with torch.no_grad():
        return 100 * float((net(images).argmax(dim=1) != labels).float().mean())


def write_net(net: nn.Module, name: str, folder: Path, percent_wrong: float) -> Path:
    """Write a network with its recipe to a file, as the bundled networks, and return its path."""
    import torch

    from ..cls.backbones.trained import SEED
    from ..io.files import write_tensors

    origin = {
        "net": name,
        "data": "scikit-learn's digits, less the 200 of the stream",
        "recipe": {**RECIPES[name], "seed": SEED},
        "error": round(percent_wrong, 2),
        "torch": torch.__version__,
    }
    path = folder / f"{name}.safetensors"
    return write_tensors(path, net.state_dict(), {"about": json.dumps(origin)})


def _run(args: argparse.Namespace) -> None:
    import torch

    from ..datasets.digits import digits

    torch.set_num_threads(1)  # the result must not depend on the number of cores
    images, clean = digits(train=True), digits(train=False)
    for name in RECIPES:
        net = train_net(name, images)
        wrong = error(net, clean)
        path = write_net(net, name, args.out, wrong)
        print(f"{name}: {wrong:.1f} % error on clean test digits, {path}", flush=True)


main = Verb(
    __doc__,
    _run,
    shared("--out", default=Path("work_dirs/digits")),
)
