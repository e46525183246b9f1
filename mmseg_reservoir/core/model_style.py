"""Style from the source model's own early layers, instead of VGG-19 (an ablation of the paper)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..options import choose, suggest
from .statistics import STATISTICS
from .style import weight_digest


class _Enough(Exception):
    """All taps have been reached: the rest of the forward pass is not needed."""


class ModelStyleEncoder(nn.Module):
    """Channel statistics of named modules of a frozen copy of the source model.

    The copy keeps its parameters while the model adapts: a style must not depend on the expert
    that happens to be loaded.

    Args:
        model: The source model; copied.
        taps: Names of its modules, in the order in which they run. Their outputs may be feature
            maps ``(N, C, H, W)`` or tokens ``(N, L, C)``.
        forward: How to run the model; default: call it.
        statistic: A name of ``STATISTICS``.
    """

    def __init__(
        self,
        model: nn.Module,
        taps: Sequence[str],
        forward: Callable[[nn.Module, Tensor], object] = nn.Module.__call__,
        statistic: str = "logvar",
    ) -> None:
        super().__init__()
        modules = dict(model.named_modules())
        for tap in taps:
            if tap not in modules:
                raise ReservoirError(f"the model has no module {tap!r}{suggest(tap, modules)}")
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.taps = tuple(taps)
        self.statistic = choose(statistic, STATISTICS, "style statistic")
        self._run = forward
        self._found: dict[str, Tensor] = {}
        modules = dict(self.model.named_modules())
        for tap in self.taps:
            modules[tap].register_forward_hook(self._keep(tap))

    def _keep(self, tap: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            maps = output if output.ndim == 4 else output.transpose(1, 2).unsqueeze(-1)
            self._found[tap] = self.statistic(maps.float())
            if len(self._found) == len(self.taps):
                raise _Enough

        return hook

    @property
    def groups(self) -> list[int] | None:
        """Lengths of the blocks of a style vector, one per tap; None before the first image."""
        return [len(self._found[tap]) for tap in self.taps] if self._found else None

    def fingerprint(self) -> dict[str, object]:
        """Everything the style of an image depends on, for the key of a calibration."""
        return {
            "model": weight_digest(self.model),
            "taps": list(self.taps),
            "statistic": self.statistic.__name__,
        }

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Style vector ``(d,)`` of images as the model wants them."""
        self._found.clear()
        try:
            self._run(self.model, images)
        except _Enough:
            return torch.cat([self._found[tap] for tap in self.taps])
        missing = [tap for tap in self.taps if tap not in self._found]
        raise ReservoirError(f"the modules {missing} were not run: choose other style taps")
