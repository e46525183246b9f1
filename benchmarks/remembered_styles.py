"""Styles of batches that several runs share: each is encoded once."""

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
    """A style encoder that reads the styles which other runs have encoded from a file.

    Args:
        folder: Folder of the files, one per kind of style. All runs append to them.
        **options: See `StyleEncoder`.
    """

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self._file = Path(folder) / f"{cache_key(self.fingerprint())}.bin"
        self._row = np.dtype([("key", "V32"), ("style", "<f4", (sum(self.groups),))])
        self._styles: dict[bytes, Tensor] = {}
        self._read = 0

    def forward(self, images: Tensor) -> Tensor:
        """Return the style of a batch."""
        key = hashlib.sha256(images.contiguous().cpu().numpy().tobytes()).digest()
        if key not in self._styles:
            self._read_new()
        if key not in self._styles:
            self._styles[key] = super().forward(images)
            row = np.array([(key, self._styles[key].cpu().numpy())], self._row)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as file:  # one write: runs do not mix rows
                file.write(row.tobytes())
        return self._styles[key].to(images.device)

    def _read_new(self) -> None:
        """Read the styles that other runs have added."""
        size = self._file.stat().st_size if self._file.is_file() else 0
        if size % self._row.itemsize:
            raise ReservoirError(f"{self._file} is truncated: remove it")
        if size > self._read:
            for key, style in np.fromfile(self._file, self._row, offset=self._read):
                self._styles[bytes(key)] = torch.from_numpy(style.copy())
            self._read = size
