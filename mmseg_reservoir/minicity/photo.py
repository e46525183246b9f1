"""The camera's electronics: from linear light to the picture that is stored."""

import cv2
import numpy as np

from mmseg_reservoir.minicity.scene import DISPLAY_GAMMA


def develop(radiance: np.ndarray, rng: np.random.Generator, noise: float = 1.0) -> np.ndarray:
    """Exposes and encodes a picture, with the spread that real footage has.

    Exposure (+-0.7 EV), white balance (+-12 %), contrast (+-25 %) and gamma differ from picture to
    picture; corners are a little darker, edges a little soft, and the sensor adds noise.

    Args:
        radiance: Linear light, 1 is white.
        rng: Source of the settings and the noise.
        noise: Factor on the sensor's noise.

    Returns:
        uint8 RGB picture.
    """
    rows, columns = radiance.shape[:2]
    exposure = 2.0 ** rng.uniform(-0.7, 0.7)
    warmth, green = rng.uniform(-0.12, 0.12), rng.uniform(-0.03, 0.03)
    gains = np.array([1 + warmth, 1 + green, 1 - warmth])
    light = radiance * (1.25 * exposure * gains).astype(np.float32)
    y, x = np.ogrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]
    light *= (1 - rng.uniform(0.0, 0.12) * (x**2 + y**2)).astype(np.float32)[..., None]

    picture = np.minimum(light, 1) ** np.float32(rng.uniform(0.87, 1.15) / DISPLAY_GAMMA)
    contrast = 1 + rng.uniform(-0.25, 0.25)
    middle = picture.mean()
    picture = middle + (picture - middle) * contrast
    picture = cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.25, 0.55))
    grain = rng.standard_normal(picture.shape, dtype=np.float32)
    picture += grain * np.float32(noise * rng.uniform(0.004, 0.016))
    return np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)
