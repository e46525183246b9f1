"""Moments of feature channels, and those of the source, the reference of alignment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..errors import ReservoirError

_MEAN_FLOOR, _LOGVAR_FLOOR = 1e-3, 1e-2  # smallest spread between source images
_EPSILON = 1e-6
_POSITIONS = 4096  # approximate number of measured positions of a large map


def channel_moments(output: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return mean and log-variance of every channel of every image, ``(N, C)`` each.

    Large maps are read at every second, third, ... row and column, about 4096 positions.
    """
    dims = [dim for dim in range(1, output.ndim) if dim != axis]
    positions = math.prod(output.shape[dim] for dim in dims)
    stride = math.ceil((positions / _POSITIONS) ** (1 / max(1, len(dims))))
    parts = [slice(None, None, stride if dim in dims else 1) for dim in range(output.ndim)]
    values = output.detach()[tuple(parts)].float()
    if not dims:  # one value per channel and image has no variance
        return values, torch.zeros_like(values)
    # torch.var_mean takes up to ten times as long.
    mean = values.mean(dims, keepdim=True)
    var = (values - mean).square_().mean(dims)
    return mean.flatten(1), (var + _EPSILON).log()


def average_moments(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the mean moments over all images of all calls of a layer, ``(C,)`` each."""
    mean, logvar = (torch.cat(moments).mean(0) for moments in zip(*parts, strict=True))
    return mean, logvar


def norm_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the normalization layers with moments that depend on the domain, by name.

    BatchNorm with batch statistics is left out, since it already aligns every batch. So are layers
    with statistics that follow the stream (RoTTA), and LayerNorm over more than the channels.
    """
    return {name: module for name, module in model.named_modules() if _can_align(module)}


def _can_align(module: nn.Module) -> bool:
    if isinstance(module, nn.LayerNorm):
        return len(module.normalized_shape) == 1
    if isinstance(module, _BatchNorm):
        return module.running_mean is not None and not getattr(module, "is_streaming", False)
    return isinstance(module, (_InstanceNorm, nn.GroupNorm))


def channels_of(module: Any) -> int:
    """Return the number of channels of a normalization layer."""
    if isinstance(module, nn.LayerNorm):
        return module.normalized_shape[0]
    return module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features


@dataclass(frozen=True)
class Reference:
    """The moments of the source at every layer, as flat vectors over all channels of all layers.

    Args:
        layers: Number of channels by the name of the layer, in the order of the forward pass.
        mean: Mean over source images of a channel's mean.
        logvar: Mean over source images of the logarithm of a channel's variance.
        mean_spread: Variance of the mean between source images, at least a thousandth of the
            channel's variance. The limit keeps channels that are constant in the source harmless.
        logvar_spread: Variance of the log-variance between source images, at least 0.01.
    """

    layers: Mapping[str, int]
    mean: Tensor
    logvar: Tensor
    mean_spread: Tensor
    logvar_spread: Tensor

    def __post_init__(self) -> None:
        channels = sum(self.layers.values())
        for name in ("mean", "logvar", "mean_spread", "logvar_spread"):
            vector = getattr(self, name)
            if tuple(vector.shape) != (channels,) or not vector.isfinite().all():
                raise ReservoirError(
                    f"{name} of the source's feature moments must be {channels} finite numbers, "
                    f"got {tuple(vector.shape)} of {vector.dtype}: calibrate again"
                )

    @classmethod
    def of(cls, images: Mapping[str, list[tuple[Tensor, Tensor]]]) -> Reference:
        """Return the reference from means and log-variances ``(N, C)`` of images, by layer."""
        layers, vectors = {}, []
        for name, parts in images.items():
            mean, logvar = (torch.cat(moments) for moments in zip(*parts, strict=True))
            layers[name] = mean.shape[1]
            mean_floor = _MEAN_FLOOR * logvar.mean(0).exp()
            vectors.append(
                (
                    mean.mean(0),
                    logvar.mean(0),
                    mean.var(0).maximum(mean_floor),
                    logvar.var(0).clamp(min=_LOGVAR_FLOOR),
                )
            )
        return cls(layers, *(torch.cat(parts) for parts in zip(*vectors, strict=True)))

    @classmethod
    def of_batch_norm(cls, model: nn.Module) -> Reference | None:
        """Return the moments of the source from BatchNorm's parameters; None without such layers.

        The output of a BatchNorm layer has mean ``bias`` and deviation ``|weight|`` on its training
        data. The spread between images is unknown. It is set to a tenth of the variance for means
        and to 0.3 for log-variances, similar to Cityscapes frames in two networks.
        """
        norms = {
            name: module
            for name, module in norm_layers(model).items()
            if isinstance(module, _BatchNorm) and module.affine
        }
        if not norms:
            return None
        layers = {name: module.num_features for name, module in norms.items()}
        mean = torch.cat([module.bias.detach() for module in norms.values()])
        variance = torch.cat([module.weight.detach().square() for module in norms.values()])
        variance = variance + _EPSILON
        spread = torch.full_like(mean, 0.3)
        return cls(layers, mean.clone(), variance.log(), 0.1 * variance, spread)

    def where(self, name: str) -> slice:
        """Return the slice of a layer's channels in the vectors."""
        return self._places[name][0]

    def position(self, name: str) -> float:
        """Return the position of a layer in [0, 1); infinity for an unknown layer."""
        return self._places[name][1] if name in self._places else math.inf

    @cached_property
    def _places(self) -> dict[str, tuple[slice, float]]:
        ends = list(accumulate(self.layers.values(), initial=0))
        slices = (slice(*pair) for pair in pairwise(ends))
        return {
            name: (where, index / len(self.layers))
            for index, (name, where) in enumerate(zip(self.layers, slices, strict=True))
        }

    def state_dict(self) -> dict[str, Any]:
        """Return names, sizes and vectors as plain data."""
        names = ("mean", "logvar", "mean_spread", "logvar_spread")
        return {"layers": dict(self.layers), **{n: getattr(self, n).clone() for n in names}}
