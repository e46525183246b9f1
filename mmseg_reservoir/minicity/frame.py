"""Render one image of the data set: a pure function of seed, condition, split and index."""

from dataclasses import dataclass

import cv2
import numpy as np

from ..errors import ReservoirError
from .night import night
from .scene import DISPLAY_GAMMA, render_scene
from .weather import clear, fog, rain, snow

WEATHER = {"clear": clear, "fog": fog, "night": night, "rain": rain, "snow": snow}
CONDITIONS = tuple(WEATHER)
SPLITS = ("train", "val")
NIGHT_NOISE = 4.0  # high gain makes the sensor's noise visible


@dataclass(frozen=True)
class Frame:
    """An image with its annotation."""

    rgb: np.ndarray  # uint8 (rows, columns, 3)
    label: np.ndarray  # uint8 (rows, columns): train ids
    depth: np.ndarray  # float32 (rows, columns): meters


def render_frame(condition: str, split: str, index: int, seed: int = 0) -> Frame:
    """Render one image, a pure function of the arguments.

    Args:
        condition: One of CONDITIONS.
        split: One of SPLITS.
        index: Number of the picture within condition and split.
        seed: Seed of the data set.

    Raises:
        ReservoirError: If condition or split is unknown, or a number is negative.
    """
    check_name("condition", condition, CONDITIONS)
    check_name("split", split, SPLITS)
    if index < 0 or seed < 0:
        raise ReservoirError(f"index and seed must be 0 or more, got {index} and {seed}")
    key = [seed, CONDITIONS.index(condition), SPLITS.index(split), index]
    # separate generators, so that the weather does not change the street
    street, air, sensor = (np.random.default_rng([*key, stream]) for stream in range(3))
    scene = render_scene(street, overcast=condition != "clear")
    radiance = WEATHER[condition](scene, air)
    noise = NIGHT_NOISE if condition == "night" else 1.0
    return Frame(develop(radiance, sensor, noise), scene.label, scene.depth)


def check_name(what: str, name: str, names: tuple[str, ...]) -> None:
    """Refuse a condition or a split that does not exist."""
    if name not in names:
        raise ReservoirError(f"unknown {what} {name!r}: use one of {', '.join(names)}")


def develop(radiance: np.ndarray, rng: np.random.Generator, noise: float = 1.0) -> np.ndarray:
    """Expose and encode an image, with the variation of real footage.

    Exposure (+-0.7 EV), white balance (+-12 %), contrast (+-25 %) and gamma differ from picture to
    picture; corners are a little darker, edges a little soft, and the sensor adds noise, times
    `noise`. The radiance is linear light, 1 is white.
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
