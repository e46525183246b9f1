"""BatchNorm with running statistics, with those of the batch, or with a blend of both."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import ReservoirError
from ..registry import suggest

if TYPE_CHECKING:
    from .base import ParamSpace

_logger = logging.getLogger(__name__)
_Layer = TypeVar("_Layer", bound=nn.Module)
_NAMED = {"running": 0.0, "batch": 1.0}


def read_batch_share(value: Any, default: str) -> float:
    """Return the weight of the batch in the statistics, from the option ``statistics``.

    Args:
        value: Value of the option: ``"running"`` (0, the source's statistics), ``"batch"`` (1, as
            TENT for classifiers), a number in between, or None for ``default``.
        default: Default of the option, ``"running"`` or ``"batch"``.
    """
    value = default if value is None else value
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value]
    if isinstance(value, Mapping) and "per_expert" in value:
        raise ReservoirError(
            f"statistics={dict(value)}: the option per_expert was removed. Write "
            'statistics="running" and reservoir=dict(preset="robust"): its alignment keeps the '
            "statistics of every expert. For a fixed share of the batch write a number, such as "
            "statistics=0.1"
        )
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        names = suggest(value, _NAMED)
        raise ReservoirError(
            f"statistics cannot be {value!r}{names}, or the share of the batch as a number from 0 "
            "to 1"
        )
    if not 0 <= value <= 1:
        raise ReservoirError(f"statistics: the share of the batch must be in [0, 1], got {value}")
    return float(value)


def set_batch_share(model: nn.Module, share: float) -> None:
    """Make every BatchNorm of a model normalize by ``(1 - share) running + share batch``.

    Call it before selecting parameters, since a blend replaces the layers. A share of 0 leaves the
    model unchanged.
    """
    if share == 1:
        use_batch_statistics(model)
    elif share and not blend(model, share):
        _logger.warning("%s has no BatchNorm: statistics change nothing", type(model).__name__)


def use_batch_statistics(model: nn.Module) -> None:
    """Make every BatchNorm normalize by the statistics of the batch, also in eval mode (TENT).

    A map with one value per channel has no variance, such as the pooled branch of DeepLab and
    PSPNet for a single image. It is normalized by the source's statistics.
    """
    for module in layers_of(model, _BatchNorm).values():
        mean, var = module.running_mean, module.running_var
        if mean is not None and var is not None:
            module.register_forward_pre_hook(partial(_lend_statistics, (mean, var)))
            module.register_forward_hook(_remove_statistics)
        module.track_running_stats = False
        module.running_mean = module.running_var = None


def _lend_statistics(
    source: tuple[Tensor, Tensor], norm: _BatchNorm, inputs: tuple[Tensor, ...]
) -> None:
    if _has_one_value(inputs[0]):
        norm.running_mean, norm.running_var = (value.to(inputs[0].device) for value in source)


def _remove_statistics(norm: _BatchNorm, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    norm.running_mean = norm.running_var = None


def _has_one_value(x: Tensor) -> bool:
    """Return whether a map ``(N, C, ...)`` has one value per channel, hence no variance."""
    return x.numel() == x.shape[1]


def goes_by_batch(model: nn.Module) -> bool:
    """Return whether the prediction of an image may depend on the other images of its batch."""
    norms = layers_of(model, _BatchNorm).values()
    return any(isinstance(n, BlendedBatchNorm) or n.running_mean is None for n in norms)


def batch_share(model: nn.Module) -> float:
    """Return the largest weight of the batch's statistics among the BatchNorm layers."""
    shares = [n.rate for n in layers_of(model, BlendedBatchNorm).values() if n.always]
    norms = layers_of(model, _BatchNorm).values()
    return max([*shares, *(1.0 for norm in norms if norm.running_mean is None)], default=0.0)


class BlendedBatchNorm(_BatchNorm):
    """BatchNorm by ``(1 - a) mu + a mu_batch``, with the running mean mu; likewise the variance.

    The gradient flows through the batch statistics. Within :func:`learning` the blend becomes the
    running statistics.

    Args:
        norm: Layer to replace; its parameters and buffers are reused.
        rate: Weight a of the batch.
        always: Whether to blend outside of :func:`learning`, too; False normalizes by the running
            statistics there. Defaults to True.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, norm: _BatchNorm, rate: float, always: bool = True) -> None:
        super().__init__(norm.num_features, norm.eps, affine=False)
        statistics = ("running_mean", "running_var", "num_batches_tracked")
        for name in ("weight", "bias", "affine", *statistics):
            setattr(self, name, getattr(norm, name))
        self.rate = rate
        self.always = always
        self.is_streaming = not always
        """Whether the running statistics follow the stream."""
        self.learns = False
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        running_mean, running_var = self.running_mean, self.running_var
        assert running_mean is not None, "a layer without running statistics is not blended"
        if not (self.learns or self.always) or _has_one_value(x):
            return batch_norm(x, running_mean, running_var, self.weight, self.bias, eps=self.eps)
        dims = [d for d in range(x.ndim) if d != 1]
        # Under autocast the maps may have half precision, which is too little for a variance.
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
    """Let forward passes update the running statistics of layers within this context."""
    layers = list(layers)
    for layer in layers:
        layer.learns = True
    try:
        yield
    finally:
        for layer in layers:
            layer.learns = False


def blend(model: nn.Module, rate: float, always: bool = True) -> dict[str, BlendedBatchNorm]:
    """Replace every BatchNorm of a model by a :class:`BlendedBatchNorm`; return these by name."""
    norms = layers_of(model, _BatchNorm)
    for name, norm in norms.items():
        _check_replaceable(name or "the model", norm)
    for name, norm in norms.items():
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, BlendedBatchNorm(norm, rate, always))
    return layers_of(model, BlendedBatchNorm)


def carry_statistics(space: ParamSpace, layers: Mapping[str, BlendedBatchNorm]) -> None:
    """Add the running statistics of layers to the buffers of a space, so each domain has a set."""
    statistics = {
        f"{name}.{leaf}": getattr(layer, leaf)
        for name, layer in layers.items()
        for leaf in ("running_mean", "running_var")
    }
    if statistics:  # a model with LayerNorm or GroupNorm has none
        space.carry(statistics)


def layers_of(model: nn.Module, kind: type[_Layer]) -> dict[str, _Layer]:
    """Return the layers of a type, by name."""
    return {n: m for n, m in model.named_modules() if isinstance(m, kind)}


def _check_replaceable(name: str, norm: _BatchNorm) -> None:
    """Raise an error for a layer that a blended one cannot replace."""
    plain = (_BatchNorm.forward, nn.SyncBatchNorm.forward, BlendedBatchNorm.forward)
    if type(norm).forward not in plain:
        raise ReservoirError(
            f"blended normalization cannot replace {name}: {type(norm).__name__} has a custom "
            "forward, such as an activation, that would be lost. Take a net with plain BatchNorm "
            'layers, or set statistics="running" or "batch" and a method that does not blend'
        )
    if norm.running_mean is None:
        raise ReservoirError(
            f"blended normalization starts from the source's running statistics, but {name} keeps "
            'none: take a net that does, and do not give it statistics="batch"'
        )
