"""Data that need no download: scikit-learn's handwritten digits, and corruptions on the spot.

1797 scans of 8 x 8 pixels (Alpaydin and Kaynak, UCI, 1998) come inside the package. Enlarged to
32 x 32 they are a small CIFAR: ten classes, and room for the corruptions of `datasets.corruptions`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import ArrayImages, DomainSet, LabelledImages

SIDE = 32
STREAM_IMAGES = 200
"""Images that no network is trained on: those of the stream."""
_SPLIT_SEED = 0


def digits(train: bool = True, stream_images: int = STREAM_IMAGES) -> ArrayImages:
    """The clean images: those to train on, or the stream's, ``stream_images`` of the 1797."""
    import torch
    from sklearn.datasets import load_digits  # half a second, for this data set alone
    from torch.nn import functional as F

    scans = load_digits()
    grey = torch.from_numpy(scans.images).float().div(16)[:, None]
    large = F.interpolate(grey, (SIDE, SIDE), mode="bilinear").mul(255).round().to(torch.uint8)
    pixels = large.permute(0, 2, 3, 1).expand(-1, -1, -1, 3).contiguous().numpy()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(pixels))
    part = order[stream_images:] if train else order[:stream_images]
    return ArrayImages(pixels[part], scans.target[part])


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
        from .corruptions import CORRUPTIONS

        self.title = title
        super().__init__(corruptions, tuple(CORRUPTIONS), severity)
        self.clean = clean
        self.seed = seed
        self.classes = int(clean.labels.max()) + 1
        self._made: dict[tuple[str, int], ArrayImages] = {}

    def _open(self, name: str, severity: int | None) -> ArrayImages:
        import torch

        from .corruptions import corrupt

        if (name, severity) not in self._made:
            parts = []
            for start in range(0, len(self.clean), 512):
                part = np.arange(start, min(start + 512, len(self.clean)))
                images = corrupt(self.clean.read(part), name, severity, seed=self.seed + start)
                parts.append((images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
            self._made[name, severity] = ArrayImages(np.concatenate(parts), self.clean.labels)
        return self._made[name, severity]


def corrupted_digits(corruptions: Sequence[str] | None = None, severity: int = 5) -> Corrupted:
    """The stream's digits under corruptions; see `Corrupted`."""
    return Corrupted(digits(train=False), corruptions, severity, title="Digits-C")
