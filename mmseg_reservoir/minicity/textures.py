"""Seamless noise tiles and their lookup."""

from functools import cache

import cv2
import numpy as np

TILE = 256  # pixels along each side of a tile


@cache
def noise_tile(roughness: float) -> np.ndarray:
    """Return a seamless random texture with zero mean and unit variance.

    Its amplitude spectrum falls as frequency ** -roughness: 0 is white noise, 1 looks like leaves
    or plaster, 2 like clouds. All scenes share the tiles, and look them up at random places.
    """
    rng = np.random.default_rng(2025)
    spectrum = np.fft.rfft2(rng.standard_normal((TILE, TILE)))
    frequency = np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.rfftfreq(TILE)[None])
    frequency[0, 0] = np.inf  # drops the mean
    tile = np.fft.irfft2(spectrum * frequency**-roughness, s=(TILE, TILE))
    return (tile / tile.std()).astype(np.float32)


def look_up(tile: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sample a seamless tile bilinearly at coordinates in pixels of the tile, within +-32000."""
    x, y = np.broadcast_arrays(np.float32(x), np.float32(y))
    return cv2.remap(tile, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)


def fraction(x: np.ndarray) -> np.ndarray:
    """Return the part behind the decimal point, several times faster than np.mod(x, 1)."""
    return x - np.floor(x)


def patch(
    rng: np.random.Generator, roughness: float, rows: int, columns: int, zoom: float = 1.0
) -> np.ndarray:
    """Return a random piece of a noise tile, magnified by `zoom`."""
    x0, y0 = rng.uniform(0, TILE, 2)
    x = x0 + np.arange(columns, dtype=np.float32)[None] / zoom
    y = y0 + np.arange(rows, dtype=np.float32)[:, None] / zoom
    return look_up(noise_tile(roughness), x, y)


def vary(rng: np.random.Generator, color, spread: float = 0.06) -> np.ndarray:
    """Return a similar color: brightness varies most, hue a little."""
    color = np.asarray(color, dtype=np.float32)
    jitter = 1 + rng.uniform(-2, 2) * spread + rng.uniform(-1, 1, 3) * spread
    return np.clip(color * jitter, 0, 1).astype(np.float32)
