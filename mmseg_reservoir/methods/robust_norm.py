"""Robust batch normalisation (RoTTA, Yuan et al., CVPR 2023, Sec. 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from ..core.params import ParamSpace
from ..errors import ReservoirError


class RobustBatchNorm(_BatchNorm):
    """BatchNorm that normalises by statistics that follow the stream slowly.

    Where it learns, ``mu <- (1 - a) mu + a mu_batch`` and the variance likewise, and the result is
    what the batch is normalised by; the gradient goes through the share of the batch. Elsewhere it
    normalises by the statistics as they are.

    Args:
        norm: The layer that it replaces, whose parameters and buffers it takes over.
        rate: a, the share of a batch.
    """

    def __init__(self, norm: _BatchNorm, rate: float) -> None:
        super().__init__(norm.num_features, norm.eps, affine=False)
        self.weight, self.bias = norm.weight, norm.bias
        self.affine = norm.affine
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self.rate = rate
        self.learning = False
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        """The normalised maps ``(N, C, ...)``."""
        mean, var = self.running_mean, self.running_var
        if not self.learning:
            return batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)
        dims = [d for d in range(x.ndim) if d != 1]
        batch_var, batch_mean = torch.var_mean(x, dims, correction=0)
        mean = torch.lerp(mean, batch_mean, self.rate)
        var = torch.lerp(var, batch_var, self.rate)
        self.running_mean.copy_(mean.detach())
        self.running_var.copy_(var.detach())
        scale = (var + self.eps).rsqrt()
        shift = -mean * scale
        if self.affine:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        shape = (1, -1, *[1] * (x.ndim - 2))
        return x * scale.view(shape) + shift.view(shape)


class RobustNorms:
    """All BatchNorm layers of a model, made robust; their statistics become part of the space.

    As part of the values, the statistics are per domain as the parameters are: an expert that is
    loaded brings its own, a cloned one inherits them, an ensemble averages them, and the source
    model normalises by those of the source.

    Args:
        space: The parameters that adapt; before an optimizer holds its values.
        rate: The share of a batch in the statistics.
    """

    def __init__(self, space: ParamSpace, rate: float) -> None:
        self.layers = dict(_replaced(space.model, rate))
        buffers = {}
        for name, layer in self.layers.items():
            buffers[f"{name}.running_mean"] = layer.running_mean
            buffers[f"{name}.running_var"] = layer.running_var
        if buffers:  # a model with LayerNorm or GroupNorm has none
            space.carry(buffers)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Within this context every forward pass moves the statistics."""
        for layer in self.layers.values():
            layer.learning = True
        try:
            yield
        finally:
            for layer in self.layers.values():
                layer.learning = False


def _replaced(model: nn.Module, rate: float) -> Iterator[tuple[str, RobustBatchNorm]]:
    norms = [(n, m) for n, m in model.named_modules() if isinstance(m, _BatchNorm)]
    for name, norm in norms:
        _check_plain(name or "the model", norm)
    for name, norm in norms:
        if norm.running_mean is None:
            raise ReservoirError(
                f"robust normalisation starts from the source's running statistics, but "
                f"{name or type(model).__name__} keeps none: build the method with "
                "batch_statistics=False"
            )
        robust = RobustBatchNorm(norm, rate)
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, robust)
        yield name, robust


def _check_plain(name: str, norm: _BatchNorm) -> None:
    """Refuse a layer that does more than normalise: in its place the net would be another one."""
    plain = (_BatchNorm.forward, nn.SyncBatchNorm.forward, RobustBatchNorm.forward)
    if type(norm).forward not in plain:
        raise ReservoirError(
            f"robust normalisation cannot replace {name}: {type(norm).__name__} has a forward of "
            "its own, such as an activation, that would be lost. Take a net with plain BatchNorm "
            "layers, or another method"
        )
