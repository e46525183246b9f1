"""Styles of batches that many runs see: encoded once, then looked up."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import register
from mmseg_reservoir.style.calibration import cache_key
from mmseg_reservoir.style.vgg import StyleEncoder


@register("style", "remembered_vgg")
class RememberedStyles(StyleEncoder):
    """Styles do not depend on the method: what one run encoded, the next one looks up.

    Args:
        folder: Where a file for each kind of style is, to which all runs append.
        **options: See `StyleEncoder`.
    """

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self._file = Path(folder) / f"{cache_key(self.fingerprint())}.bin"
        self._row = np.dtype([("key", "V32"), ("style", "<f4", (sum(self.groups),))])
        self._known: dict[bytes, Tensor] = {}
        self._read = 0

    def forward(self, images: Tensor) -> Tensor:
        """The style of a batch, as it was when it was first seen."""
        key = hashlib.sha256(images.contiguous().cpu().numpy().tobytes()).digest()
        if key not in self._known:
            self._catch_up()
        if key not in self._known:
            self._known[key] = super().forward(images)
            row = np.array([(key, self._known[key].cpu().numpy())], self._row)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as file:  # one write: runs do not mix rows
                file.write(row.tobytes())
        return self._known[key].to(images.device)

    def _catch_up(self) -> None:
        """Learn what other runs have added."""
        size = self._file.stat().st_size if self._file.is_file() else 0
        if size % self._row.itemsize:
            raise ReservoirError(f"{self._file} was cut off: remove it")
        if size > self._read:
            for key, style in np.fromfile(self._file, self._row, offset=self._read):
                self._known[bytes(key)] = torch.from_numpy(style.copy())
            self._read = size
