"""Moments of feature channels: those of the source, and those of one expert's domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

REACHES = (0.0, 0.25, 0.5, 1.0, 2.0)
"""What an expert chooses its reach from. 0: no alignment. 2: half strength at the last layer."""
SETTLE = 8
"""Batches of a trial before its moments describe its own reach."""
PROBES = 4
"""Batches of a trial that it is judged by."""
_START = REACHES.index(0.5)
_FIRST_TRIAL = 10  # batches of an expert before it tries another reach
_AGAIN = 1000  # batches after which all reaches may be tried again
_TRIAL_WINDOW = 5  # batches that the moments of a trial remember, so that they settle in time
_HARM = 0.03  # by so much a smaller reach has to be better, so that chance takes none
_MEAN_FLOOR, _LOGVAR_FLOOR = 1e-3, 1e-2  # least spread between source images, see Reference
_EPSILON = 1e-6
_POSITIONS = 4096  # of a map that its moments are measured by


def channel_moments(output: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return mean and log-variance of every channel of every image, ``(N, C)`` each.

    Of large maps every second, third, ... row and column is read, so that about 4096 positions are.
    """
    dims = [dim for dim in range(1, output.ndim) if dim != axis]
    positions = math.prod(output.shape[dim] for dim in dims)
    stride = math.ceil((positions / _POSITIONS) ** (1 / max(1, len(dims))))
    parts = [slice(None, None, stride if dim in dims else 1) for dim in range(output.ndim)]
    values = output.detach()[tuple(parts)].float()
    if not dims:  # one value per channel and image, which has no variance
        return values, torch.zeros_like(values)
    var, mean = torch.var_mean(values, dims, correction=0)
    return mean, (var + _EPSILON).log()


def average_moments(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the mean over all images of all calls of a layer, ``(C,)`` each."""
    mean, logvar = (torch.cat(moments).mean(0) for moments in zip(*parts, strict=True))
    return mean, logvar


def norm_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the normalization layers with moments that depend on the domain, by name.

    BatchNorm that goes by the statistics of the batch is left out: it aligns every batch already.
    So is LayerNorm over more than the channels.
    """
    return {name: module for name, module in model.named_modules() if _can_align(module)}


def _can_align(module: nn.Module) -> bool:
    if isinstance(module, nn.LayerNorm):
        return len(module.normalized_shape) == 1
    if isinstance(module, _BatchNorm):
        return module.running_mean is not None
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
            channel's variance: a channel that is constant in the source is no evidence.
        logvar_spread: Variance of the log-variance between source images, at least 0.01.
    """

    layers: Mapping[str, int]
    mean: Tensor
    logvar: Tensor
    mean_spread: Tensor
    logvar_spread: Tensor

    @classmethod
    def of(cls, images: Mapping[str, list[tuple[Tensor, Tensor]]]) -> Reference:
        """Return the reference of measured images: by layer, means and log-variances ``(N, C)``."""
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
        """Return what BatchNorm's own parameters say of the source; None without such layers.

        The output of a BatchNorm layer has mean ``bias`` and deviation ``|weight|`` on the data it
        was trained on. The spread between images is not known: a tenth of the variance for means
        and 0.3 for log-variances, about what Cityscapes frames show in two networks.
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

    def state_dict(self) -> dict[str, Any]:
        """Return names, sizes and vectors as plain data."""
        vectors = {name: value.clone() for name, value in vars(self).items() if name != "layers"}
        return {"layers": dict(self.layers), **vectors}


@dataclass
class DomainMoments:
    """The moments of one expert's domain, and how deep they are used.

    An expert starts with a reach of 0.5. From its tenth batch on it tries the next larger reach,
    and, if that is refused, the next smaller one. A trial has its own moments, since those of deep
    layers depend on the correction of earlier ones. It learns them beside the expert for eight
    batches, then four batches decide: how much more often pixels keep their label in the mirrored
    image, plus 0.15 times the loss of entropy in nats. Predictions are never those of a trial.

    Args:
        mean: Mean of every channel, averaged over images.
        logvar: Log-variance of every channel, averaged over images.
        images: Number of images that were learned from.
        batches: Number of batches that they came in.
        level: Index of the reach in ``REACHES``.
        refused: Levels that trials were made of and that were not taken.
        gains: Results of the judged batches; of a trial.
        trial: Moments of another reach, while one is tried.
        window: Number of batches that the moments remember; 0, but in a trial: those of the
            alignment.
    """

    mean: Tensor
    logvar: Tensor
    images: int = 0
    batches: int = 0
    level: int = _START
    refused: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    trial: DomainMoments | None = None
    window: int = 0

    @property
    def reach(self) -> float:
        """The depth at which the strength has fallen to 0, as a share of the layers."""
        return REACHES[self.level]

    def weight_of(self, images: int, window: int) -> float:
        """Return the weight of a new batch in the average: by its images, at least 1 / window."""
        return max(images / (self.images + images), 1 / (self.window or window))

    def count(self, images: int) -> None:
        """Count a batch that was learned from."""
        self.images += images
        self.batches += 1

    def start_trial(self) -> DomainMoments | None:
        """Return the trial of another reach, a new one if it is time for one; None if not."""
        if self.batches % _AGAIN == 0:
            self.refused = []
        if self.trial is None and self.batches >= _FIRST_TRIAL:
            ways = [self.level + 1, self.level - 1]
            untried = [n for n in ways if 0 <= n < len(REACHES) and n not in self.refused]
            if untried:
                own = self.mean.clone(), self.logvar.clone(), self.images
                self.trial = DomainMoments(*own, level=untried[0], window=_TRIAL_WINDOW)
        return self.trial

    def end_trial(self) -> bool:
        """Decide on a trial that has been judged; return whether its reach is taken."""
        trial, self.trial = self.trial, None
        assert trial is not None
        gain = sum(trial.gains) / len(trial.gains)
        if gain <= (0 if trial.level > self.level else _HARM):
            self.refused = [*self.refused, trial.level]
            return False
        self.refused = [*self.refused, self.level]
        self.mean, self.logvar, self.level = trial.mean, trial.logvar, trial.level
        return True

    def merged(self, other: DomainMoments, weight: float) -> DomainMoments:
        """Return the moments of all images of two experts of one domain.

        The reach is that of this one, and so is what is known of other reaches.

        Args:
            other: The other expert's.
            weight: Share of the other's images among all.
        """
        return DomainMoments(
            torch.lerp(self.mean, other.mean, weight),
            torch.lerp(self.logvar, other.logvar, weight),
            self.images + other.images,
            self.batches + other.batches,
            self.level,
            list(self.refused),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all values as plain data."""
        trial = None if self.trial is None else self.trial.state_dict()
        return {**vars(self), "trial": trial}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> DomainMoments:
        """Undo :meth:`state_dict`."""
        trial = None if state["trial"] is None else cls.of(state["trial"])
        return cls(**{**state, "trial": trial})
