"""What the first convolution of a model sees: a look at the domain that adaptation leaves alone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ..base import Forward


class _Enough(Exception):
    """The first convolution has been reached: the rest of the forward pass is not needed."""


@torch.no_grad()
def stem_statistics(forward: Forward, inputs: Tensor) -> Tensor:
    """Mean and variance of every channel behind the first convolution, as rows of ``(2, C)``.

    That is the patch embedding of a vision transformer and the stem of a residual net. Of a model
    without a convolution, those of its inputs ``(N, C, *spatial)``. The rest of the model is not
    run.
    """
    seen: list[Tensor] = []

    def keep(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, nn.Conv2d):
            seen.append(output)
            raise _Enough

    # A hook on all modules, because a method knows the model only as a function.
    handle = register_module_forward_hook(keep)
    try:
        with suppress(_Enough):  # the hook's own way to stop the model early
            forward(inputs)
    finally:
        handle.remove()
    features = (seen[0] if seen else inputs).movedim(1, -1).flatten(0, -2)
    return torch.stack([features.mean(dim=0), features.var(dim=0, correction=0)])


def gaussian_divergence(one: Tensor, other: Tensor, smallest: float = 1e-6) -> Tensor:
    """``KL(p || q) + KL(q || p)`` of Gaussians, averaged over channels, of ``(..., 2, C)``.

    Args:
        one: Means and variances of p.
        other: Those of q.
        smallest: What a variance counts for at least: a covered lens has none.
    """
    (mean, var), (mean_, var_) = one.unbind(dim=-2), other.unbind(dim=-2)
    var, var_ = var.clamp_min(smallest), var_.clamp_min(smallest)
    apart = (mean - mean_).square()
    return ((var + apart) / var_ + (var_ + apart) / var - 2).mean(dim=-1) / 2
