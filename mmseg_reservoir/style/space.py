"""The space in which styles are compared: transforms fitted on the styles of the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Annotated, Any

import torch
from torch import Tensor

from ..core.state import copied_to
from ..errors import ReservoirError
from ..option_types import Registered
from ..registry import find, register

_FOLDS = 5

TransformOption = Annotated[str | Callable[..., Any], Registered("transform")]


class Transform(ABC):
    """Base class of maps of styles ``(n, d)``, fitted to those of the source.

    Args:
        groups: Lengths of a style vector's blocks, one per tap. Defaults to None, one block.
    """

    needs_no_crossfit = True
    """False if the map makes the styles of its fit look more typical than unseen ones. The source
    styles are then mapped by cross-fitting."""

    def __init__(self, groups: Sequence[int] | None = None) -> None:
        self.groups = None if groups is None else list(groups)
        self.state: dict[str, Tensor] = {}

    def fit(self, styles: Tensor) -> Transform:
        """Fit to source styles ``(n, d)``; return the transform itself."""
        return self

    @abstractmethod
    def __call__(self, styles: Tensor) -> Tensor: ...


@register("transform", "identity")
class Identity(Transform):
    """No transform."""

    def __call__(self, styles: Tensor) -> Tensor:
        return styles


@register("transform", "gain_removal")
class GainRemoval(Transform):
    """Subtraction of each tap's mean, since a contrast change shifts all log-variances alike."""

    def __call__(self, styles: Tensor) -> Tensor:
        blocks = styles.split(self.groups or styles.shape[1], dim=1)
        return torch.cat([block - block.mean(dim=1, keepdim=True) for block in blocks], dim=1)


@register("transform", "standardize")
class Standardize(Transform):
    """Scaling of each channel to mean 0 and variance 1 on the source."""

    def fit(self, styles: Tensor) -> Transform:
        # A constant channel has no spread.
        scale = styles.std(dim=0).clamp_min(1e-6)
        self.state = {"mean": styles.mean(dim=0), "scale": scale}
        return self

    def __call__(self, styles: Tensor) -> Tensor:
        return (styles - self.state["mean"]) / self.state["scale"]


@register("transform", "whiten")
class Whiten(Transform):
    """Whitening by the Ledoit-Wolf covariance, which removes common variation such as exposure."""

    needs_no_crossfit = False

    def fit(self, styles: Tensor) -> Transform:
        from sklearn.covariance import LedoitWolf

        fitted = LedoitWolf().fit(styles.double().numpy())
        values, vectors = torch.linalg.eigh(torch.from_numpy(fitted.covariance_))
        # The symmetric root, since fits on other frames (the folds) must not rotate the axes.
        matrix = (vectors * values.clamp_min(1e-12).rsqrt()) @ vectors.T
        mean = torch.from_numpy(fitted.location_)
        self.state = {"mean": mean.to(styles), "matrix": matrix.to(styles)}
        return self

    def __call__(self, styles: Tensor) -> Tensor:
        return (styles - self.state["mean"]) @ self.state["matrix"]


@register("transform", "squash")
class Squash(Transform):
    """The map ``z / sqrt(r^2 + |z|^2)``, with r the typical length on the source.

    Near the source it only scales. Far from it only the direction matters, so that all domains
    have similar spreads.
    """

    def fit(self, styles: Tensor) -> Transform:
        self.state = {"square": styles.square().sum(dim=1).mean().clamp_min(1e-12)}
        return self

    def __call__(self, styles: Tensor) -> Tensor:
        return styles / (self.state["square"] + styles.square().sum(dim=1, keepdim=True)).sqrt()


@register("space", "parts")
class StyleSpace:
    """Concatenated parts of the style vector, each with a separate chain of transforms.

    Example:
        >>> space = StyleSpace(all=["standardize", "whiten"]).fit(torch.randn(50, 8))
        >>> space(torch.randn(8)).shape
        torch.Size([8])

    Args:
        all: Names of registered transforms of the whole vector, in order.
        mean: Names of transforms of the means; only for the statistic ``mean_var``.
        logvar: Names of transforms of the log-variances; only for the statistic ``mean_var``.
    """

    def __init__(
        self,
        all: Sequence[TransformOption] | None = None,
        mean: Sequence[TransformOption] | None = None,
        logvar: Sequence[TransformOption] | None = None,
    ) -> None:
        parts = {"all": all, "mean": mean, "logvar": logvar}
        self.chains = {
            part: [find("transform", step) for step in steps]
            for part, steps in parts.items()
            if steps is not None
        }
        if not self.chains:
            raise ReservoirError("the style space needs at least one part: set all, mean or logvar")

    def fit(self, styles: Tensor, groups: Sequence[int] | None = None) -> StyleSpace:
        """Fit all transforms to source styles ``(n, d)``; return the space itself.

        ``groups`` are the lengths of a style vector's blocks, one per tap; None for one block.
        """
        length = styles.shape[1]
        if groups is not None and sum(groups) != length:
            raise ReservoirError(
                f"the blocks {list(groups)} of a style must add up to its length, {length}"
            )
        columns = _columns(length, groups)
        # In double precision, since the whitening divides by small numbers.
        styles = styles.detach().cpu().double()
        self._parts: list[tuple[Tensor, list[Transform]]] = []
        held_out = []
        for name, steps in self.chains.items():
            if name not in columns:
                raise ReservoirError(
                    f"reservoir.space.{name} needs reservoir.style.statistic='mean_var', and an "
                    "encoder with the lengths of its blocks: otherwise use reservoir.space.all"
                )
            chosen, sizes = columns[name]
            chain, unseen = _fit_chain(styles[:, chosen], steps, sizes)
            self._parts.append((chosen, chain))
            held_out.append(unseen)
        self.held_out = torch.cat(held_out, dim=1).float()
        """Source styles for the calibration, mapped as if they were not in the fit."""
        return self

    def __call__(self, style: Tensor) -> Tensor:
        """Map a style vector ``(d,)``."""
        row = style.detach().cpu().double()[None]
        parts = [reduce(lambda x, step: step(x), chain, row[:, c]) for c, chain in self._parts]
        return torch.cat(parts, dim=1)[0].float()

    def state_dict(self) -> dict[str, Any]:
        """Return the fitted values."""
        states = [[step.state for step in chain] for _, chain in self._parts]
        return {"parts": states, "held_out": self.held_out}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict` of a space with the same parts."""
        for (_, chain), states in zip(self._parts, state["parts"], strict=True):
            for step, values in zip(chain, states, strict=True):
                step.state = copied_to(values, self.held_out.device)
        self.held_out = copied_to(state["held_out"], self.held_out.device)


def _columns(length: int, groups: Sequence[int] | None) -> dict[str, tuple[Tensor, list[int]]]:
    """Return columns and block lengths by part. A ``mean_var`` block has means, then logvars."""
    everything = torch.arange(length)
    columns = {"all": (everything, [length] if groups is None else list(groups))}
    if groups is not None and all(size % 2 == 0 for size in groups):
        halves = [size // 2 for size in groups]
        pieces = everything.split([half for half in halves for _ in ("mean", "logvar")])
        columns["mean"] = (torch.cat(pieces[::2]), halves)
        columns["logvar"] = (torch.cat(pieces[1::2]), halves)
    return columns


def _fit_chain(
    styles: Tensor, steps: Sequence[type[Transform]], groups: list[int]
) -> tuple[list[Transform], Tensor]:
    """Fit a chain; return it and the source styles, mapped as if they were not in the fit."""
    chain, unseen = [], styles
    for kind in steps:
        if kind.needs_no_crossfit:
            step = kind(groups).fit(unseen)
            unseen = step(unseen)
        else:
            step = kind(groups).fit(styles)
            unseen = _cross_fit(kind, styles, groups)
        styles = step(styles)
        chain.append(step)
    return chain, unseen


def _cross_fit(kind: type[Transform], styles: Tensor, groups: list[int]) -> Tensor:
    """Map every style by a transform fitted without it."""
    # In strides, since neighboring frames of one drive resemble each other.
    fold = torch.arange(len(styles)) % min(_FOLDS, len(styles))
    unseen = torch.empty_like(styles)
    for i in fold.unique():
        unseen[fold == i] = kind(groups).fit(styles[fold != i])(styles[fold == i])
    return unseen
