"""Style from early layers of the source model instead of VGG-19 (an ablation of the paper)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..registry import register, suggest
from .encoder import Encoder, Size, as_pair, reduced
from .statistics import StatisticOption, find_statistic, name_of


class _Enough(Exception):
    """Exception that skips the rest of a forward pass after the last tap."""


@register("style", "model")
class ModelStyleEncoder(Encoder):
    """Channel statistics of named modules in a frozen copy of the source model.

    The copy does not adapt, since a style must not depend on the expert that is loaded.

    Args:
        model: The source model, which is copied.
        taps: Names of modules that return feature maps ``(N, C, H, W)`` or tokens ``(N, L, C)``, in
            any order.
        forward: Function that runs the model on a batch. Defaults to a call of the model.
        statistic: Name of a style statistic, or a function of features. Defaults to ``"logvar"``.
        size: Size of the copy of the images to encode, as for ``"vgg"``. Defaults to None, the
            images as they are.
    """

    sees = "inputs"

    def __init__(
        self,
        model: nn.Module,
        taps: Sequence[str] | str,
        forward: Callable[[nn.Module, Tensor], object] = nn.Module.__call__,
        statistic: StatisticOption = "logvar",
        size: Size | None = None,
    ) -> None:
        super().__init__()
        self.size = as_pair(size)
        self.taps = tuple(dict.fromkeys([taps] if isinstance(taps, str) else taps))
        self.statistic = find_statistic(statistic)
        modules = dict(model.named_modules())
        for tap in self.taps:
            if tap not in modules:
                raise ReservoirError(f"the model has no module {tap!r}{suggest(tap, modules)}")
        if not self.taps:
            raise ReservoirError(
                "reservoir.style.taps is empty: give names of modules of the model"
            )
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self._run = forward
        self._styles: dict[str, Tensor] = {}
        for tap in self.taps:
            self.model.get_submodule(tap).register_forward_hook(partial(self._keep, tap))

    def _keep(self, tap: str, module: nn.Module, inputs: object, output: object) -> None:
        self._styles[tap] = self.statistic(_as_maps(output, tap).float())
        if len(self._styles) == len(self.taps):
            raise _Enough

    def fingerprint(self) -> dict[str, Any]:
        view = {} if self.size is None else {"size": self.size}
        taps = {"taps": list(self.taps), "statistic": name_of(self.statistic)}
        return super().fingerprint() | taps | view

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return the style vector ``(d,)`` of model inputs ``(N, 3, H, W)``."""
        self._styles.clear()
        try:
            self._run(self.model, images if self.size is None else reduced(images, self.size))
        except _Enough:
            styles = [self._styles[tap] for tap in self.taps]
            self.groups = [len(style) for style in styles]  # unknown before the first image
            return torch.cat(styles)
        missing = [tap for tap in self.taps if tap not in self._styles]
        raise ReservoirError(f"the modules {missing} did not run: choose other style taps")


def _as_maps(output: object, tap: str) -> Tensor:
    if isinstance(output, Tensor) and output.ndim == 4:
        return output
    if isinstance(output, Tensor) and output.ndim == 3:
        return output.transpose(1, 2).unsqueeze(-1)
    if isinstance(output, Tensor):
        what = f"a tensor {tuple(output.shape)}"
    else:
        what = f"a {type(output).__name__}"
    raise ReservoirError(
        f"the style tap {tap!r} returns {what}, not feature maps (N, C, H, W) or tokens "
        "(N, L, C): choose another module for reservoir.style.taps"
    )
