"""A model whose inputs are logits, for tests of losses and filters on fixed predictions."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from mmseg_reservoir.methods import AdaptationMethod
from mmseg_reservoir.params import ParamSpace

CLASSES = 4


class LogitNet(nn.Module):
    """``logits * scale + shift``, both per class; does nothing before it is adapted."""

    def __init__(self, dtype: torch.dtype, classes: int = CLASSES) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(classes, dtype=dtype))
        self.shift = nn.Parameter(torch.zeros(classes, dtype=dtype))

    def forward(self, logits: Tensor) -> Tensor:
        shape = (-1, *[1] * (logits.ndim - 2))
        return logits * self.scale.view(shape) + self.shift.view(shape)


def logit_method(
    cls: type[AdaptationMethod],
    dtype: torch.dtype = torch.float32,
    optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9),  # noqa: B008
    classes: int = CLASSES,
    **options,
) -> AdaptationMethod:
    """A method around a new net of this kind; its parameters are a scale and a shift per class."""
    net = LogitNet(dtype, classes)
    return cls(net, ParamSpace(net, dict(net.named_parameters())), optimizer, **options)


def some_logits(
    seed: int = 0,
    count: int = 12,
    dtype: torch.dtype = torch.float32,
    scale: float = 3.0,
    classes: int = CLASSES,
) -> Tensor:
    """Logits ``(count, classes)``: some of the samples decided, some not."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(count, classes, generator=generator)).to(dtype)


def as_image(logits: Tensor) -> Tensor:
    """The same samples as pixels: ``(S, C) -> (2, C, 2, S / 4)``."""
    return logits.view(2, 2, -1, CLASSES).permute(0, 3, 1, 2)


def frozen(state: dict) -> dict:
    """A domain state with tensors as lists, so that states can be compared."""
    return {
        key: frozen(value)
        if isinstance(value, dict)
        else value.tolist()
        if isinstance(value, Tensor)
        else value
        for key, value in state.items()
    }
