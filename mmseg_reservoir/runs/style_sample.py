"""A sample of the styles of a run, in ``styles.safetensors`` beside its results."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..io.files import read_tensors, write_tensors

if TYPE_CHECKING:  # tables are made without torch, which takes seconds to import
    from torch import Tensor

FILE = "styles.safetensors"
ROOM = 1000
"""Number of styles in the sample. With 320 numbers each, they take 0.6 MB."""


class Styles(NamedTuple):
    """Styles ``(n, d)``, in the order of the stream, and the index of each batch's first route."""

    vectors: np.ndarray
    routes: np.ndarray

    def of_first(self, count: int) -> Styles:
        """Return the styles of the first ``count`` routes."""
        first = self.routes < count
        return Styles(self.vectors[first], self.routes[first])


@dataclass(eq=False)
class StyleSample:
    """A uniform sample of all styles so far, by Vitter's algorithm R.

    Args:
        room: Number of styles in the sample. Defaults to 1000.
    """

    room: int = ROOM
    _kept: list[tuple[int, Tensor]] = field(default_factory=list, init=False)
    _seen: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        # A private generator, because sampling must not change the random numbers of the run.
        self._draw = random.Random(0)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, route: int, style: Tensor) -> None:
        """Add the style of a batch if it is drawn; ``route`` is the index of its first route."""
        self._seen += 1
        if len(self) < self.room:
            self._kept.append((route, _copy(style)))
            return
        index = self._draw.randrange(self._seen)
        if index < self.room:
            self._kept[index] = (route, _copy(style))

    def state_dict(self) -> dict[str, Any]:
        """Return the sample and its generator."""
        kept = [{"route": route, "style": style} for route, style in self._kept]
        return {"kept": kept, "seen": self._seen, "draw": self._draw.getstate()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._kept = [(row["route"], row["style"]) for row in state["kept"]]
        self._seen = state["seen"]
        self._draw.setstate(state["draw"])

    def write(self, folder: Path) -> None:
        """Write the sample at half precision, unless it is empty."""
        if not self._kept:
            return
        import torch

        routes, styles = zip(*sorted(self._kept, key=lambda kept: kept[0]), strict=True)
        tensors = {"styles": torch.stack(styles).half(), "routes": torch.tensor(routes)}
        write_tensors(folder / FILE, tensors, {"seen": str(self._seen)})


def read_styles(folder: Path) -> Styles | None:
    """Return the styles in a work directory; None without such a file."""
    if not (folder / FILE).is_file():
        return None
    tensors, _ = read_tensors(folder / FILE, "remove it; the report can do without")
    return Styles(tensors["styles"].float().numpy(), tensors["routes"].numpy())


def _copy(style: Tensor) -> Tensor:
    """Return a copy on the CPU, since an encoder may reuse the memory of a style."""
    return style.detach().flatten().cpu().clone()
