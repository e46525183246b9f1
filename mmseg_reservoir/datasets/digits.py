"""scikit-learn's handwritten digits under corruptions, without a download.

The package scikit-learn has 1797 scans of 8 x 8 pixels (Alpaydin and Kaynak, UCI, 1998). They are
enlarged to 32 x 32, as CIFAR, and corrupted by `corruptions`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import ArrayImages, DomainSet, LabeledImages

SIDE = 32
STREAM_IMAGES = 200
"""Number of images in the stream. No network is trained on them."""
_SPLIT_SEED = 0


def digits(train: bool = True, stream_images: int = STREAM_IMAGES) -> ArrayImages:
    """Return the clean images to train on, or the ``stream_images`` of the stream."""
    import torch
    from sklearn.datasets import load_digits  # takes half a second
    from torch.nn import functional as F

    scans = load_digits()
    gray = torch.from_numpy(scans.images).float().div(16)[:, None]
    large = F.interpolate(gray, (SIDE, SIDE), mode="bilinear").mul(255).round().to(torch.uint8)
    pixels = large.permute(0, 2, 3, 1).expand(-1, -1, -1, 3).contiguous().numpy()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(pixels))
    part = order[stream_images:] if train else order[:stream_images]
    return ArrayImages(pixels[part], scans.target[part])


class Corrupted(DomainSet):
    """Clean images under the corruptions of `datasets.corruptions`.

    A whole domain is corrupted at its first use and kept as bytes, 3 kB per image of 32 x 32. So
    an image does not change between batches, as in published files.

    Args:
        clean: Clean images.
        corruptions: Domains in the order of the stream. Defaults to all twelve.
        severity: Severity from 1 to 5.
        seed: Seed of the noise.
        title: Name of the data set in messages.
    """

    def __init__(
        self,
        clean: LabeledImages,
        corruptions: Sequence[str] | None = None,
        severity: int = 5,
        seed: int = 0,
        title: str = "Corrupted",
    ) -> None:
        from .corruptions import CORRUPTIONS

        self.title = title
        super().__init__(corruptions, tuple(CORRUPTIONS), severity)
        self.clean = clean
        self.seed = seed
        self.classes = int(clean.labels.max()) + 1
        self._domains: dict[tuple[str, int], ArrayImages] = {}

    def _open(self, name: str, severity: int | None) -> ArrayImages:
        import torch

        from .corruptions import corrupt

        assert severity is not None  # it has a default
        if (name, severity) not in self._domains:
            parts = []
            for start in range(0, len(self.clean), 512):
                part = np.arange(start, min(start + 512, len(self.clean)))
                images = corrupt(self.clean.read(part), name, severity, seed=self.seed + start)
                parts.append((images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
            self._domains[name, severity] = ArrayImages(np.concatenate(parts), self.clean.labels)
        return self._domains[name, severity]


def corrupted_digits(corruptions: Sequence[str] | None = None, severity: int = 5) -> Corrupted:
    """Return the digits of the stream under corruptions."""
    return Corrupted(digits(train=False), corruptions, severity, title="Digits-C")
