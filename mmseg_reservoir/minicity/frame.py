"""One picture of the data set: a pure function of seed, condition, split and index."""

from dataclasses import dataclass

import numpy as np

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity.night import night
from mmseg_reservoir.minicity.photo import develop
from mmseg_reservoir.minicity.scene import render_scene
from mmseg_reservoir.minicity.weather import clear, fog, rain, snow

WEATHER = {"clear": clear, "fog": fog, "night": night, "rain": rain, "snow": snow}
CONDITIONS = tuple(WEATHER)
SPLITS = ("train", "val")
NIGHT_NOISE = 4.0  # high gain makes the sensor's noise visible


@dataclass(frozen=True)
class Frame:
    """A picture with its annotation.

    Attributes:
        rgb: uint8 (rows, columns, 3).
        label: uint8 (rows, columns) train ids.
        depth: float32 (rows, columns) metres.
    """

    rgb: np.ndarray
    label: np.ndarray
    depth: np.ndarray


def render_frame(condition: str, split: str, index: int, seed: int = 0) -> Frame:
    """Renders one picture.

    Args:
        condition: One of CONDITIONS.
        split: One of SPLITS.
        index: Number of the picture within condition and split.
        seed: Seed of the data set.

    Returns:
        The frame; the same arguments always give the same one.

    Raises:
        ReservoirError: If condition or split is unknown, or a number is negative.
    """
    if condition not in CONDITIONS:
        raise ReservoirError(f"unknown condition {condition!r}: use one of {', '.join(CONDITIONS)}")
    if split not in SPLITS:
        raise ReservoirError(f"unknown split {split!r}: use one of {', '.join(SPLITS)}")
    if index < 0 or seed < 0:
        raise ReservoirError(f"index and seed must be 0 or more, got {index} and {seed}")
    key = [seed, CONDITIONS.index(condition), SPLITS.index(split), index]
    # separate streams, so that a change of the weather leaves the street as it is
    street, air, sensor = (np.random.default_rng([*key, stream]) for stream in range(3))
    scene = render_scene(street, overcast=condition != "clear")
    radiance = WEATHER[condition](scene, air)
    noise = NIGHT_NOISE if condition == "night" else 1.0
    return Frame(develop(radiance, sensor, noise), scene.label, scene.depth)
