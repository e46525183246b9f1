"""BatchNorm by other statistics than those that it was trained with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import ReservoirError

if TYPE_CHECKING:
    from .base import ParamSpace

_Layer = TypeVar("_Layer", bound=nn.Module)


def use_batch_statistics(model: nn.Module) -> None:
    """Make every BatchNorm normalise with the statistics of the current batch, also in eval mode.

    This is what TENT does for classification. A map with one value per channel has no statistics,
    such as the pooled branch of DeepLab and PSPNet for a single image: there the source's serve.
    """
    for module in layers_of(model, _BatchNorm).values():
        mean, var = module.running_mean, module.running_var
        if mean is not None and var is not None:
            module.register_forward_pre_hook(partial(_lend, (mean, var)))
            module.register_forward_hook(_take_back)
        module.track_running_stats = False
        module.running_mean = module.running_var = None


def _lend(source: tuple[Tensor, Tensor], norm: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
    if _has_one_value(inputs[0]):
        norm.running_mean, norm.running_var = (value.to(inputs[0].device) for value in source)


def _take_back(norm: _BatchNorm, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    norm.running_mean = norm.running_var = None


def _has_one_value(x: Tensor) -> bool:
    """Whether a map ``(N, C, ...)`` has one value per channel, hence no spread."""
    return x.numel() == x.shape[1]


def goes_by_batch(model: nn.Module) -> bool:
    """Whether what a model says of an image may depend on those beside it."""
    norms = layers_of(model, _BatchNorm).values()
    return any(isinstance(n, BlendedBatchNorm) or n.running_mean is None for n in norms)


class BlendedBatchNorm(_BatchNorm):
    """BatchNorm by ``(1 - a) mu + a mu_batch``, with the running mean mu; likewise the variance.

    The gradient goes through the share of the batch. Where the layer learns (:func:`learning`), the
    blend becomes the running statistics.

    Args:
        norm: The layer that it replaces, whose parameters and buffers it takes over.
        rate: a, the share of a batch.
        always: False blends only where the layer learns; elsewhere it normalises by the running
            statistics as they are.
    """

    running_mean: Tensor  # which :func:`_check_replaceable` has asked for
    running_var: Tensor

    def __init__(self, norm: _BatchNorm, rate: float, always: bool = True) -> None:
        super().__init__(norm.num_features, norm.eps, affine=False)
        statistics = ("running_mean", "running_var", "num_batches_tracked")
        for name in ("weight", "bias", "affine", *statistics):
            setattr(self, name, getattr(norm, name))
        self.rate = rate
        self.always = always
        self.is_streaming = not always  # its statistics learn from the stream
        self.learns = False
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        running_mean, running_var = self.running_mean, self.running_var
        assert running_mean is not None, "a layer without running statistics is not blended"
        if not (self.learns or self.always) or _has_one_value(x):
            return batch_norm(x, running_mean, running_var, self.weight, self.bias, eps=self.eps)
        dims = [d for d in range(x.ndim) if d != 1]
        # Under autocast the maps may be of half precision, which is too little for a variance.
        batch_var, batch_mean = torch.var_mean(x.to(running_mean.dtype), dims, correction=0)
        mean = torch.lerp(running_mean, batch_mean, self.rate)
        var = torch.lerp(running_var, batch_var, self.rate)
        if self.learns:
            running_mean.copy_(mean.detach())
            running_var.copy_(var.detach())
        scale = (var + self.eps).rsqrt()
        shift = -mean * scale
        if self.affine:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        shape = (1, -1, *[1] * (x.ndim - 2))
        return (x * scale.view(shape) + shift.view(shape)).to(x.dtype)


@contextmanager
def learning(layers: Iterable[BlendedBatchNorm]) -> Iterator[None]:
    """Within this context forward passes move the running statistics of layers."""
    layers = list(layers)
    for layer in layers:
        layer.learns = True
    try:
        yield
    finally:
        for layer in layers:
            layer.learns = False


def blend(model: nn.Module, rate: float, always: bool = True) -> dict[str, BlendedBatchNorm]:
    """Replace every BatchNorm of a model; the new layers by name.

    Args:
        model: The model, whose parameters and buffers stay the same objects.
        rate: The share of a batch.
        always: As in :class:`BlendedBatchNorm`.
    """
    norms = layers_of(model, _BatchNorm)
    for name, norm in norms.items():
        _check_replaceable(name or "the model", norm)
    for name, norm in norms.items():
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, BlendedBatchNorm(norm, rate, always))
    return layers_of(model, BlendedBatchNorm)


def carry_statistics(space: ParamSpace, layers: Mapping[str, BlendedBatchNorm]) -> None:
    """Make the running statistics of layers part of a space's values.

    They are then per domain as the parameters are: an expert that is loaded brings its own, a
    cloned one inherits them, an ensemble averages them, and the source model normalises by those
    of the source.
    """
    buffers = {}
    for name, layer in layers.items():
        buffers[f"{name}.running_mean"] = layer.running_mean
        buffers[f"{name}.running_var"] = layer.running_var
    if buffers:  # a model with LayerNorm or GroupNorm has none
        space.carry(buffers)


def layers_of(model: nn.Module, kind: type[_Layer]) -> dict[str, _Layer]:
    """The layers of a kind, by name."""
    return {n: m for n, m in model.named_modules() if isinstance(m, kind)}


def _check_replaceable(name: str, norm: _BatchNorm) -> None:
    """Refuse a layer that does more than normalise: in its place the net would be another one."""
    plain = (_BatchNorm.forward, nn.SyncBatchNorm.forward, BlendedBatchNorm.forward)
    if type(norm).forward not in plain:
        raise ReservoirError(
            f"blended normalisation cannot replace {name}: {type(norm).__name__} has a forward of "
            "its own, such as an activation, that would be lost. Take a net with plain BatchNorm "
            'layers, or else statistics="running" or "batch" and a method that does not blend'
        )
    if norm.running_mean is None:
        raise ReservoirError(
            f"blended normalisation starts from the source's running statistics, but {name} keeps "
            'none: take a net that does, and do not give it statistics="batch"'
        )
