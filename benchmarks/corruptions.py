"""Digits under corruptions in the manner of ImageNet-C (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from sklearn.datasets import load_digits

SIZE = 32


def digits(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits as RGB ``(n, 32, 32, 3)`` from 0 to 255, in two random halves."""
    small = load_digits().images.astype(np.float32) * (255 / 16)
    large = np.stack([cv2.resize(image, (SIZE, SIZE)) for image in small])
    images = np.repeat(large[..., None], 3, axis=-1)
    order = np.random.default_rng(seed).permutation(len(images))
    return images[order[::2]], images[order[1::2]]


def noise(images: np.ndarray) -> np.ndarray:
    """Gaussian noise of the sensor."""
    grain = np.random.default_rng(1).normal(0, 40, images.shape)
    return _pixels(images + grain)


def blur(images: np.ndarray) -> np.ndarray:
    """A lens out of focus."""
    return _pixels(np.stack([cv2.GaussianBlur(image, (0, 0), 2.0) for image in images]))


def contrast(images: np.ndarray) -> np.ndarray:
    """A third of the contrast of every image."""
    centre = images.mean(axis=(1, 2, 3), keepdims=True)
    return _pixels(centre + (images - centre) / 3)


def brightness(images: np.ndarray) -> np.ndarray:
    """More light; white stays white."""
    return _pixels(images + 80)


def fog(images: np.ndarray) -> np.ndarray:
    """Drifting haze: smooth noise of several sizes, blended over the image."""
    rng = np.random.default_rng(2)
    haze = np.zeros(images.shape[:3], np.float32)
    for cells in (2, 4, 8):
        coarse = rng.random((len(images), cells, cells), dtype=np.float32)
        haze += np.stack([cv2.resize(c, (SIZE, SIZE)) for c in coarse]) / cells
    haze *= 255 / haze.max()
    return _pixels(0.5 * images + 0.5 * haze[..., None])


def pixelate(images: np.ndarray) -> np.ndarray:
    """Blocks of four pixels."""
    few = (SIZE // 4, SIZE // 4)
    shrunk = [cv2.resize(image, few, interpolation=cv2.INTER_AREA) for image in images]
    grown = [cv2.resize(s, (SIZE, SIZE), interpolation=cv2.INTER_NEAREST) for s in shrunk]
    return _pixels(np.stack(grown))


def _pixels(images: np.ndarray) -> np.ndarray:
    return np.clip(images, 0, 255).astype(np.float32)


CORRUPTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    function.__name__: function for function in (noise, blur, contrast, brightness, fog, pixelate)
}
"""In the order of the stream."""
