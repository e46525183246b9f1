"""The ground: road with markings, curbs, sidewalks, grass, and the shadows on all of it."""

import cv2
import numpy as np

from .camera import Camera
from .canvas import Canvas, Label
from .street import Side, StreetPlan
from .textures import fraction, look_up, noise_tile, vary

CURB_WIDTH = 0.28
PAVING_COLORS = ((0.62, 0.61, 0.59), (0.60, 0.50, 0.45), (0.66, 0.62, 0.54), (0.54, 0.55, 0.57))
GRASS_COLORS = ((0.34, 0.44, 0.18), (0.42, 0.46, 0.20), (0.50, 0.46, 0.26), (0.28, 0.40, 0.16))


def paint_ground(canvas: Canvas, plan: StreetPlan, rng: np.random.Generator) -> None:
    """Paint everything below the horizon, with the shadows of all objects."""
    first, across, ahead = canvas.camera.ground()
    label, curb = _bands(across, plan.sides)
    paved, road = label == Label.SIDEWALK, label == Label.ROAD

    # texture fades with distance: far away, a pixel averages over many grains
    fade = np.clip(14 / ahead, 0.15, 1)
    fine = look_up(noise_tile(0.4), across * 22, ahead * 22) * fade
    coarse = look_up(noise_tile(1.4), across * 6 + 50, ahead * 3)
    tracks = np.cos(across * np.float32(2 * np.pi / 1.75) + np.float32(rng.uniform(0, 6)))
    grain = np.where(road, 0.11 * fine + 0.08 * coarse + 0.05 * tracks, 0.20 * fine + 0.14 * coarse)
    slabs = 0.05 * fine + 0.06 * coarse + _slabs(across, ahead, rng) * fade
    grain = 1 + np.where(paved, slabs, grain)
    marking = road & _markings(across, ahead, plan.sides, rng) & (coarse < 1.4)

    palette = np.stack(
        [
            vary(rng, (0.42, 0.42, 0.43), 0.02) * np.float32(rng.uniform(0.8, 1.2)),
            vary(rng, rng.choice(PAVING_COLORS)),
            vary(rng, rng.choice(GRASS_COLORS), 0.07),
            np.float32([0.70, 0.69, 0.67]),
            vary(rng, (0.82, 0.82, 0.80), 0.04),
        ]
    )
    kind = np.array([0, 1, *([2] * 17)], np.uint8)[label]  # road, paving, and grass for the rest
    kind[curb] = 3
    kind[marking] = 4
    grain *= _shadows(canvas, plan, across, ahead)
    canvas.paint[first:, :, :3] = palette[kind] * grain[..., None]
    canvas.meaning[first:, :, 0] = label
    canvas.meaning[first:, :, 1] = ahead


def _bands(across: np.ndarray, sides: tuple[Side, Side]) -> tuple[np.ndarray, np.ndarray]:
    """Return the label of each piece of ground, and whether it is a curb (labeled sidewalk)."""
    left, right = sides
    edges = [-outer for outer, _ in left.bands[-2::-1]]
    edges += [-left.curb - CURB_WIDTH, -left.curb, right.curb, right.curb + CURB_WIDTH]
    edges += [outer for outer, _ in right.bands[:-1]]
    labels = [band for _, band in left.bands[::-1]]
    curb_number = len(labels)
    labels += [Label.SIDEWALK, Label.ROAD, Label.SIDEWALK]
    labels += [band for _, band in right.bands]
    number = np.searchsorted(np.float32(edges), across)
    curb = np.abs(number - curb_number - 1) == 1
    return np.array(labels, np.uint8)[number], curb


def _markings(across, ahead, sides, rng) -> np.ndarray:
    """Return the mask of white paint: the middle line, perhaps edge lines and a crosswalk."""
    dashed = fraction(ahead / rng.uniform(6, 12) + rng.random()) < rng.uniform(0.4, 0.6)
    white = (np.abs(across) < 0.09) & (dashed if rng.random() < 0.8 else True)
    if rng.random() < 0.6:
        inset = rng.uniform(0.3, 0.6)
        for side in sides:
            white |= np.abs(across * side.sign - (side.curb - inset)) < 0.08
    if rng.random() < 0.35:
        start = rng.uniform(7, 24)
        white |= (ahead > start) & (ahead < start + 3.2) & (fraction(across + 0.25) < 0.5)
    return white


def _slabs(across, ahead, rng) -> np.ndarray:
    """Return the brightness of paving slabs, which vary, and of the dark joints between them."""
    slab = rng.uniform(0.5, 1.1)
    x, z = across * np.float32(1 / slab), ahead * np.float32(1 / slab)
    column, row = np.floor(x), np.floor(z)
    joint = (x - column < 0.10) | (z - row < 0.10)
    own = noise_tile(0.0)[row.astype(np.int32) & 255, column.astype(np.int32) & 255]
    return 0.06 * own - 0.20 * joint


def _shadows(canvas: Canvas, plan: StreetPlan, across, ahead) -> np.ndarray:
    """Return the brightness of the ground: sunlit, in shadow, dark below objects."""
    camera, light = canvas.camera, canvas.light
    sun_across, sun_up, sun_ahead = light.sun
    shaded = np.zeros((camera.rows, camera.columns), np.uint8)
    contact = np.zeros_like(shaded)
    for thing in plan.things:
        half_width, half_length, height = thing.footprint()
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
        corners = corners * (half_width, half_length) + (thing.across, thing.ahead)
        shift = np.array([sun_across, sun_ahead]) * (-height / sun_up)
        _fill(contact, camera, corners)
        if light.strength:
            _fill(shaded, camera, np.concatenate([corners, corners + shift]))

    first = camera.rows - len(across)
    in_shade = shaded[first:] > 0
    for side in plan.sides:
        if light.strength and side.sign * sun_across > 0.05:  # the shadow falls into the street
            run = np.maximum(side.house_line - side.sign * across, 0)
            source = ahead + run * np.float32(sun_ahead / abs(sun_across))
            in_shade |= run * np.float32(sun_up / abs(sun_across)) < side.skyline(source)
    sunlit = 1 - cv2.GaussianBlur(in_shade.astype(np.float32), (0, 0), 0.8)
    soft = cv2.GaussianBlur(contact[first:].astype(np.float32) / 255, (0, 0), 1.6)
    direct = np.float32(0.55 * light.strength * sun_up)
    return (np.float32(light.on(0, 1, 0)) - direct * (1 - sunlit)) * (1 - np.float32(0.55) * soft)


def _fill(mask: np.ndarray, camera: Camera, ground_points: np.ndarray) -> None:
    """Mark the convex hull of points (across, ahead) on the ground."""
    across, ahead = ground_points.T
    points = np.stack([across, np.zeros_like(across), np.maximum(ahead, 1.0)], axis=1)
    hull = cv2.convexHull(camera.project(points).astype(np.float32))
    cv2.fillConvexPoly(mask, np.round(hull).astype(np.int32), 255)
