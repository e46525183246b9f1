"""The effects of fog, rain and snow on the light of a scene."""

import cv2
import numpy as np

from .canvas import Label
from .scene import Scene
from .textures import patch

GROUND = (Label.ROAD, Label.SIDEWALK, Label.TERRAIN)
BARE = (*GROUND, Label.SKY, Label.PERSON, Label.RIDER, Label.BICYCLE)  # without caps of snow

FLAKES = ((420, 1, 1, 2, 0.7), (110, 1, 3, 5, 1.2), (14, 3, 7, 9, 3))  # count, sizes, smear, blur


def clear(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Return the light of clear air, unchanged."""
    return scene.radiance.copy()


def fog(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Apply fog after Koschmieder: light fades with depth and is replaced by the light of the air.

    Visibility (where 5 % of the contrast is left) is 25 to 120 m, mostly more than 60 m.
    """
    visibility = 120 * (25 / 120) ** (rng.random() ** 1.5)
    airlight = rng.uniform(0.50, 0.68) * np.array([1.0, 1.0, 1.0]) * _tint(rng, 0.04)
    transmission = _transmission(scene, rng, visibility, unevenness=0.12)
    scattered = cv2.GaussianBlur(scene.radiance, (0, 0), 1.6)  # droplets also blur far objects
    sharp = scene.radiance * transmission + scattered * (1 - transmission)
    return (sharp * transmission + airlight * (1 - transmission)).astype(np.float32)


def rain(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Apply rain: gray light, reflections of a wet road, streaks in the air, drops on the lens."""
    strength = rng.uniform(0.25, 1.0)
    light = _flatten(scene.radiance, 0.15 + 0.25 * strength, rng.uniform(0.75, 1.0))
    light = _wet_ground(light, scene, rng, strength)
    haze = rng.uniform(0.32, 0.50) * _tint(rng, 0.03)
    transmission = _transmission(scene, rng, 320 - 200 * strength * rng.random(), 0.2)
    light = light * transmission + haze * (1 - transmission)
    light = light + _streaks(light.shape[:2], rng, strength) * (0.35 + 0.3 * haze)
    return _drops_on_lens(light.astype(np.float32), rng, strength)


def snow(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Apply snow: white ground and caps, flat light, haze and flakes."""
    strength = rng.uniform(0.25, 1.0)
    light = _flatten(scene.radiance, 0.1 + 0.25 * strength, rng.uniform(0.8, 1.0))
    cover = _snow_cover(scene, rng, strength)[..., None]
    white = 0.72 * (1 + 0.06 * patch(rng, 1.0, *scene.label.shape))[..., None]
    white = white * np.array([0.97, 0.99, 1.03])
    light = light * (1 - cover) + white * cover
    haze = rng.uniform(0.50, 0.66) * _tint(rng, 0.03)
    transmission = _transmission(scene, rng, 320 - 220 * strength * rng.random(), 0.2)
    light = light * transmission + haze * (1 - transmission)
    flakes = _flakes(scene.label.shape, rng, strength)
    return (light * (1 - flakes) + 0.85 * flakes).astype(np.float32)


def _tint(rng: np.random.Generator, spread: float) -> np.ndarray:
    """Return a slightly bluish or yellowish white."""
    warmth = rng.uniform(-spread, spread)
    return np.array([1 + warmth, 1.0, 1 - warmth], np.float32)


def _transmission(scene, rng, visibility: float, unevenness: float) -> np.ndarray:
    """Return the share of light that comes through the air, from 1 (near) to 0 (sky)."""
    swathes = 1 + unevenness * patch(rng, 2.0, *scene.depth.shape, zoom=2.0)
    thickness = np.maximum(swathes, 0.3) * scene.depth * (3.0 / visibility)
    return np.exp(-thickness)[..., None].astype(np.float32)


def _flatten(light: np.ndarray, greyness: float, brightness: float) -> np.ndarray:
    """Reduce color and contrast, as under a closed cover of clouds."""
    gray = light.mean(axis=2, keepdims=True)
    return (light + (gray - light) * greyness) * brightness


def _wet_ground(light, scene: Scene, rng, strength: float) -> np.ndarray:
    """Darken wet ground and mirror the objects above it."""
    rows = np.arange(light.shape[0])[:, None]
    ground = np.isin(scene.label, GROUND)
    # ground mirrors the lowest object above it, upside down about its foot
    foot = np.maximum.accumulate(np.where(ground, 0, rows), axis=0)
    mirrored = np.clip(2 * foot - rows, 0, None)
    image = np.take_along_axis(light, mirrored[..., None].repeat(3, axis=2), axis=0)
    image = cv2.blur(image, (3, 11))
    ripples = patch(rng, 1.5, *ground.shape, zoom=1.5)
    wetness = np.clip(0.55 + 0.35 * ripples, 0.1, 1) * strength
    wetness *= np.where(scene.label == Label.ROAD, 1.0, 0.45) * ground
    grazing = np.clip(scene.depth / 18, 0.3, 1.0)
    mirror = (0.75 * wetness * grazing)[..., None]
    return light * (1 - 0.5 * (ground * strength)[..., None]) * (1 - mirror) + image * mirror


def _streaks(shape, rng, strength: float) -> np.ndarray:
    """Return falling drops, as streaks of the exposure time."""
    rows, columns = shape
    fine = np.zeros((2 * rows, 2 * columns), np.uint8)
    slant = rng.uniform(-0.35, 0.35)
    for _ in range(int(40 + 200 * strength)):
        x, y = rng.uniform(0, 2 * columns), rng.uniform(-20, 2 * rows)
        length = rng.uniform(8, 36)
        end = (int(x + slant * length), int(y + length))
        cv2.line(fine, (int(x), int(y)), end, int(rng.uniform(50, 190)), 1, cv2.LINE_AA)
    soft = cv2.GaussianBlur(fine, (0, 0), 0.6)
    return cv2.resize(soft, (columns, rows), interpolation=cv2.INTER_AREA)[..., None] / 255.0


def _drops_on_lens(light: np.ndarray, rng, strength: float) -> np.ndarray:
    """Add drops on the glass: round lenses that show the surroundings blurred and upside down."""
    rows, columns = light.shape[:2]
    blurred = cv2.GaussianBlur(light, (0, 0), 2.5)
    smeared = np.clip(patch(rng, 2.0, rows, columns, zoom=1.5) - 1.4 + 0.6 * strength, 0, 1)
    light = light + (blurred - light) * smeared[..., None]
    for _ in range(rng.poisson(7 * strength)):
        x, y, radius = rng.uniform(0, columns), rng.uniform(0, rows), rng.uniform(2.5, 6.5)
        top, bottom = max(int(y - radius), 0), min(int(y + radius) + 1, rows)
        left, right = max(int(x - radius), 0), min(int(x + radius) + 1, columns)
        v, u = np.mgrid[top:bottom, left:right].astype(np.float32) + 0.5
        inside = np.clip(radius - np.hypot(u - x, (v - y) * 0.85), 0, 1)[..., None]
        seen_u = np.clip(x - 5 * (u - x), 0, columns - 1)
        seen_v = np.clip(y - 5 * (v - y), 0, rows - 1)
        drop = cv2.remap(blurred, seen_u, seen_v, cv2.INTER_LINEAR) * 1.1 + 0.02
        here = light[top:bottom, left:right]
        here += (drop - here) * inside * 0.85
    return light


def _snow_cover(scene: Scene, rng, strength: float) -> np.ndarray:
    """Return the share of snow of each pixel: on the ground, along the curbs, on objects."""
    shape = scene.label.shape
    lumps = patch(rng, 1.2, *shape, zoom=1.2)
    amount = np.zeros(shape, np.float32)
    amount[scene.label == Label.TERRAIN] = 1.1
    amount[scene.label == Label.SIDEWALK] = 0.75
    first, across, _ = scene.camera.ground()
    tracks = 0.5 + 0.5 * np.cos((np.abs(across) - 1.8) * (2 * np.pi / 1.75))  # cars clear two
    road = 0.28 + 0.55 * np.clip((np.abs(across) - 2.4) / 2.5, 0, 1) + 0.35 * tracks - 0.2
    on_road = scene.label[first:] == Label.ROAD
    amount[first:][on_road] = road[on_road]
    amount[scene.label == Label.VEGETATION] = 0.38
    cover = np.clip((amount * (0.45 + 0.85 * strength) - 0.42 + 0.16 * lumps) * 3.5, 0, 1)
    cover = np.where(amount > 0, cover, 0)
    return np.maximum(cover, _caps(scene, strength))


def _caps(scene: Scene, strength: float) -> np.ndarray:
    """Return snow on surfaces with nothing close above: roofs, cars, walls, signs, branches."""
    upright = ~np.isin(scene.label, BARE)
    thickness = np.clip(0.55 * strength * scene.camera.focal / scene.depth, 0.6, 5)
    caps = np.zeros(scene.label.shape, np.float32)
    for step in range(1, 6):
        above = scene.depth.copy()  # no depth is available beyond the upper edge
        above[step:] = scene.depth[:-step]
        open_above = upright & (above > 1.08 * scene.depth + 0.5)
        caps = np.maximum(caps, open_above * np.clip(thickness - step + 1, 0, 1))
    return 0.95 * cv2.GaussianBlur(caps, (0, 0), 0.5)


def _flakes(shape, rng, strength: float) -> np.ndarray:
    """Return falling flakes: many small far ones, a few large and blurred near ones."""
    rows, columns = shape
    drift = rng.uniform(-0.8, 0.8)
    flakes = np.zeros((2 * rows, 2 * columns), np.uint8)
    for count, low, high, smear, blur in FLAKES:
        layer = np.zeros_like(flakes)
        for _ in range(int(count * strength * rng.uniform(0.6, 1.2))):
            x, y = rng.uniform(0, 2 * columns), rng.uniform(0, 2 * rows)
            length = rng.uniform(0, smear)
            end = (int(x + drift * length), int(y + length))
            size = int(rng.integers(low, high + 1))
            cv2.line(layer, (int(x), int(y)), end, int(rng.uniform(130, 255)), size, cv2.LINE_AA)
        flakes = np.maximum(flakes, cv2.GaussianBlur(layer, (0, 0), blur))
    return cv2.resize(flakes, (columns, rows), interpolation=cv2.INTER_AREA)[..., None] / 255.0
