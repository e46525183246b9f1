"""Night: street lamps, headlights, lit windows, and a sensor at its limits."""

import cv2
import numpy as np

from .canvas import Label
from .scene import Scene
from .textures import patch

LAMP_COLORS = ((1.0, 0.60, 0.26), (1.0, 0.78, 0.50), (0.86, 0.93, 1.0))  # sodium, warm, LED
WINDOW_COLOR = (1.0, 0.72, 0.38)


def night(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Apply night: only the last light of the sky, lamps, headlights and windows remain.

    Each pixel's place in the street follows from its depth, so lamps light what stands near them
    and fade with the square of the distance.
    """
    lamp_color = rng.choice(LAMP_COLORS).astype(np.float32)
    darkness = rng.uniform(0.0, 1.0)
    sky = scene.label == Label.SKY
    ambient = (0.09 - 0.06 * darkness) * np.array([0.75, 0.88, 1.25], np.float32)
    across, up, ahead = _places(scene)
    irradiance = ambient + _street_lamps(scene, across, up, ahead, rng) * lamp_color
    irradiance += _headlights(across + scene.camera.drift(ahead), up, ahead, rng)[..., None]
    light = scene.radiance * irradiance
    light[sky] = _night_sky(scene, lamp_color, rng, darkness)[sky]
    sources = _sources(scene, lamp_color)
    return (light + sources + _bloom(sources, rng)).astype(np.float32)


def _places(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the street coordinates of each pixel."""
    camera = scene.camera
    ahead = np.minimum(scene.depth, 300)
    rows = np.arange(camera.rows, dtype=np.float32)[:, None] + 0.5 - camera.horizon
    columns = np.arange(camera.columns, dtype=np.float32)[None] + 0.5 - camera.columns / 2
    up = camera.eye - rows * (ahead / camera.focal)
    across = columns * (ahead / camera.focal) - camera.drift(ahead)
    return across, up, ahead


def _street_lamps(scene: Scene, across, up, ahead, rng) -> np.ndarray:
    """Return the light of the lamps in view, and of others behind the camera or farther ahead."""
    row = np.arange(rng.uniform(-6, 6), 120, rng.uniform(20, 30))
    side = rng.choice([-1, 1])
    unseen = np.stack([np.full(len(row), side * 3.5), np.full(len(row), 7.0), row], axis=1)
    total = np.zeros(across.shape, np.float32)
    power = rng.uniform(25, 60)
    for x, y, z in np.concatenate([scene.lamps, unseen]):
        below = np.maximum(y - up, 0)
        squared = (across - x) ** 2 + (up - y) ** 2 + (ahead - z) ** 2 + 1.0
        downwards = below / np.sqrt(squared)  # lamps are shaded against the sky
        total += power * downwards**2.5 / squared
    return total[..., None]


def _headlights(offset, up, ahead, rng) -> np.ndarray:
    """Return the low beam of the camera's car: bright on the road ahead, cut off above."""
    sideways = np.exp(-((offset / (0.22 * ahead + 1.2)) ** 2))
    cut_off = np.clip(0.8 - 0.6 * (up - 0.6 - 0.01 * ahead), 0, 1)
    reach = rng.uniform(10, 18)
    return rng.uniform(0.25, 0.8) * sideways * cut_off * np.exp(-ahead / reach)


def _night_sky(scene: Scene, lamp_color, rng, darkness: float) -> np.ndarray:
    """Return a nearly black, bluish sky with the glow of a city above the horizon."""
    height = np.clip(1 - np.arange(scene.camera.rows) / max(scene.camera.horizon, 1), 0, 1)
    clouds = 1 + 0.25 * patch(rng, 1.8, *scene.label.shape, zoom=1.5)
    deep = (0.035 - 0.028 * darkness) * np.array([0.55, 0.75, 1.35])
    city = rng.uniform(0.015, 0.05) * lamp_color * np.exp(-3 * height)[:, None]
    return ((deep + city)[:, None] * clouds[..., None]).astype(np.float32)


def _sources(scene: Scene, lamp_color) -> np.ndarray:
    """Return the light sources: warm windows, street lamps in their color, the rest as painted."""
    color = scene.radiance.copy()
    color[scene.label == Label.BUILDING] = WINDOW_COLOR
    panes = (scene.label == Label.BUS) & (color.max(axis=2) < 0.1)
    color[panes] = (0.75, 0.72, 0.62)  # lit from within
    color[scene.label == Label.POLE] = lamp_color
    strength = np.where(scene.label == Label.BUILDING, 0.32, 1.1) * scene.glow
    return color * strength[..., None].astype(np.float32)


def _bloom(sources: np.ndarray, rng) -> np.ndarray:
    """Return halos around bright lights, from the lens and damp air."""
    strength = rng.uniform(0.6, 1.6)
    halo = sum(
        weight * cv2.GaussianBlur(sources, (0, 0), sigma)
        for weight, sigma in ((0.5, 1.5), (0.45, 4.0), (0.5, 11.0))
    )
    return strength * halo
