"""Domains that are made from clean images on the spot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .base import ArrayImages, DomainSet, LabelledImages
from .corruptions import CORRUPTIONS, corrupt


class Corrupted(DomainSet):
    """Clean images under `datasets.corruptions`; a domain is made whole when it is first asked for.

    Like the published files, and so that an image looks the same in every batch it comes in, a
    domain is kept as bytes: 3 kB for an image of 32 x 32.

    Args:
        clean: The images.
        corruptions: Domains, in order; by default all twelve.
        severity: 1 to 5.
        seed: Of the noise.
        title: For messages.
    """

    def __init__(
        self,
        clean: LabelledImages,
        corruptions: Sequence[str] | None = None,
        severity: int = 5,
        seed: int = 0,
        title: str = "Corrupted",
    ) -> None:

        self.title = title
        super().__init__(corruptions, tuple(CORRUPTIONS), severity)
        self.clean = clean
        self.seed = seed
        self.classes = int(clean.labels.max()) + 1
        self._made: dict[tuple[str, int], ArrayImages] = {}

    def _open(self, name: str, severity: int | None) -> ArrayImages:
        key = (name, severity)
        if key not in self._made:
            self._made[key] = self._make(name, severity)
        return self._made[key]

    def _make(self, name: str, severity: int) -> ArrayImages:

        parts = []
        for start in range(0, len(self.clean), 512):
            part = np.arange(start, min(start + 512, len(self.clean)))
            images = corrupt(self.clean.read(part), name, severity, seed=self.seed + start)
            parts.append((images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
        return ArrayImages(np.concatenate(parts), self.clean.labels)
