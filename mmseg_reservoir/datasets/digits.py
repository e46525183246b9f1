"""Scikit-learn's handwritten digits: real images that need no download.

1797 scans of 8 x 8 pixels (Alpaydin and Kaynak, UCI, 1998) come inside the package. Enlarged to
32 x 32 they are a small CIFAR: ten classes, and room for the corruptions of `datasets.corruptions`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional as F

from .base import ArrayImages
from .corrupted import Corrupted

SIDE = 32
STREAM_IMAGES = 200
"""Images that no network is trained on: those of the stream."""
_SPLIT_SEED = 0


def digits(train: bool = True, stream_images: int = STREAM_IMAGES) -> ArrayImages:
    """The clean images.

    Args:
        train: The images to train on, or those of the stream.
        stream_images: How many of the 1797 are the stream's.
    """
    from sklearn.datasets import load_digits  # half a second, for this data set alone

    scans = load_digits()
    grey = torch.from_numpy(scans.images).float().div(16)[:, None]
    large = F.interpolate(grey, (SIDE, SIDE), mode="bilinear").mul(255).round().to(torch.uint8)
    pixels = large.permute(0, 2, 3, 1).expand(-1, -1, -1, 3).contiguous().numpy()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(pixels))
    part = order[stream_images:] if train else order[:stream_images]
    return ArrayImages(pixels[part], scans.target[part])


def corrupted_digits(corruptions: Sequence[str] | None = None, severity: int = 5) -> Corrupted:
    """The stream's images under corruptions.

    Args:
        corruptions: Domains, in order; by default all.
        severity: 1 to 5.
    """
    return Corrupted(digits(train=False), corruptions, severity, title="Digits-C")
