"""The ground: road with markings, kerbs, sidewalks, grass, and the shadows on all of it."""

from dataclasses import dataclass

import cv2
import numpy as np

from mmseg_reservoir.minicity.canvas import Canvas
from mmseg_reservoir.minicity.labels import Label
from mmseg_reservoir.minicity.textures import fraction, look_up, noise_tile, vary

KERB_WIDTH = 0.28
PAVING_COLOURS = ((0.62, 0.61, 0.59), (0.60, 0.50, 0.45), (0.66, 0.62, 0.54), (0.54, 0.55, 0.57))
GRASS_COLOURS = ((0.34, 0.44, 0.18), (0.42, 0.46, 0.20), (0.50, 0.46, 0.26), (0.28, 0.40, 0.16))


@dataclass(frozen=True)
class Side:
    """One side of the street, as bands that follow one another outwards from the road's axis.

    Attributes:
        sign: -1 for the left side, 1 for the right.
        kerb: Distance from the axis to the end of the road.
        bands: (outer edge, label) of each band beyond the road; the last one reaches to infinity.
    """

    sign: int
    kerb: float
    bands: tuple[tuple[float, Label], ...]

    def middle(self, label: Label) -> float | None:
        """Position across the street of the middle of the first band with this label."""
        inner = self.kerb
        for outer, band in self.bands:
            if band is label:
                return self.sign * (inner + min(outer, inner + 6.0)) / 2
            inner = outer
        return None

    @property
    def edge(self) -> float:
        """Distance from the axis to where the open ground begins."""
        return self.bands[-2][0]


@dataclass(frozen=True)
class Footprint:
    """What an object covers on the ground, and how tall it is: all that a shadow needs."""

    across: float
    ahead: float
    half_width: float
    half_length: float
    height: float


@dataclass(frozen=True)
class Roofs:
    """How high the houses of one side are, by depth.

    Attributes:
        sign: -1 for the left side, 1 for the right.
        distance: Distance of the facades from the road's axis.
        edges: Depths at which the height changes.
        heights: Height before the first edge, between the edges, and behind the last one.
    """

    sign: int
    distance: float
    edges: np.ndarray
    heights: np.ndarray

    def height(self, ahead: np.ndarray) -> np.ndarray:
        """Height at some depths, 0 in gaps."""
        return self.heights[np.searchsorted(self.edges, ahead)]


def paint_ground(
    canvas: Canvas,
    sides: tuple[Side, Side],
    footprints: list[Footprint],
    roofs: list[Roofs],
    rng: np.random.Generator,
) -> None:
    """Paints everything below the horizon.

    Args:
        canvas: What to paint on.
        sides: The left and the right side of the street.
        footprints: The objects that will stand on the ground, for their shadows.
        roofs: The houses of each side, for their shadows.
        rng: Source of the materials.
    """
    first, across, ahead = canvas.camera.ground()
    label, kerb = _bands(across, sides)
    paved = label == Label.SIDEWALK
    road = label == Label.ROAD

    # texture fades with distance: far away, a pixel averages over many grains
    fade = np.clip(14 / ahead, 0.15, 1)
    fine = look_up(noise_tile(0.4), across * 22, ahead * 22) * fade
    coarse = look_up(noise_tile(1.4), across * 6 + 50, ahead * 3)
    tracks = np.cos(across * np.float32(2 * np.pi / 1.75) + np.float32(rng.uniform(0, 6)))
    grain = np.where(road, 0.11 * fine + 0.08 * coarse + 0.05 * tracks, 0.20 * fine + 0.14 * coarse)
    slabs = 0.05 * fine + 0.06 * coarse + _slabs(across, ahead, rng) * fade
    grain = 1 + np.where(paved, slabs, grain)
    marking = road & _markings(across, ahead, sides, rng) & (coarse < 1.4)

    palette = np.stack(
        [
            vary(rng, (0.42, 0.42, 0.43), 0.02) * np.float32(rng.uniform(0.8, 1.2)),
            vary(rng, PAVING_COLOURS[rng.integers(len(PAVING_COLOURS))]),
            vary(rng, GRASS_COLOURS[rng.integers(len(GRASS_COLOURS))], 0.07),
            np.float32([0.70, 0.69, 0.67]),
            vary(rng, (0.82, 0.82, 0.80), 0.04),
        ]
    )
    kind = np.array([0, 1, *([2] * 17)], np.uint8)[label]  # road, paving, and grass for the rest
    kind[kerb] = 3
    kind[marking] = 4
    grain *= _shadows(canvas, footprints, roofs, across, ahead)
    canvas.paint[first:, :, :3] = palette[kind] * grain[..., None]
    canvas.meaning[first:, :, 0] = label
    canvas.meaning[first:, :, 1] = ahead


def _bands(across: np.ndarray, sides: tuple[Side, Side]) -> tuple[np.ndarray, np.ndarray]:
    """Label of each piece of ground, and whether it is a kerb (which counts as sidewalk)."""
    left, right = sides
    edges = [-outer for outer, _ in left.bands[-2::-1]]
    edges += [-left.kerb - KERB_WIDTH, -left.kerb, right.kerb, right.kerb + KERB_WIDTH]
    edges += [outer for outer, _ in right.bands[:-1]]
    labels = [band for _, band in left.bands[::-1]]
    kerb_number = len(labels)
    labels += [Label.SIDEWALK, Label.ROAD, Label.SIDEWALK]
    labels += [band for _, band in right.bands]
    number = np.searchsorted(np.float32(edges), across)
    kerb = np.abs(number - kerb_number - 1) == 1
    return np.array(labels, np.uint8)[number], kerb


def _markings(across, ahead, sides, rng) -> np.ndarray:
    """Where white paint is: the middle line, perhaps edge lines and a zebra crossing."""
    dashed = fraction(ahead / rng.uniform(6, 12) + rng.random()) < rng.uniform(0.4, 0.6)
    white = (np.abs(across) < 0.09) & (dashed if rng.random() < 0.8 else True)
    if rng.random() < 0.6:
        inset = rng.uniform(0.3, 0.6)
        for side in sides:
            white |= np.abs(across * side.sign - (side.kerb - inset)) < 0.08
    if rng.random() < 0.35:
        start = rng.uniform(7, 24)
        white |= (ahead > start) & (ahead < start + 3.2) & (fraction(across + 0.25) < 0.5)
    return white


def _slabs(across, ahead, rng) -> np.ndarray:
    """Brightness of paving slabs, each with its own shade, and of the dark joints between them."""
    slab = rng.uniform(0.5, 1.1)
    x, z = across * np.float32(1 / slab), ahead * np.float32(1 / slab)
    column, row = np.floor(x), np.floor(z)
    joint = (x - column < 0.10) | (z - row < 0.10)
    own = noise_tile(0.0)[row.astype(np.int32) & 255, column.astype(np.int32) & 255]
    return 0.06 * own - 0.20 * joint


def _shadows(canvas: Canvas, footprints, roofs, across, ahead) -> np.ndarray:
    """Brightness of the ground: sunlit, in the shadow of houses and objects, dark under objects."""
    camera, light = canvas.camera, canvas.light
    sun_across, sun_up, sun_ahead = light.sun
    shaded = np.zeros((camera.rows, camera.columns), np.uint8)
    contact = np.zeros_like(shaded)
    for foot in footprints:
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
        corners = corners * (foot.half_width, foot.half_length) + (foot.across, foot.ahead)
        shift = np.array([sun_across, sun_ahead]) * (-foot.height / sun_up)
        _fill(contact, camera, corners)
        if light.strength:
            _fill(shaded, camera, np.concatenate([corners, corners + shift]))

    first = camera.rows - len(across)
    in_shade = shaded[first:] > 0
    for row in roofs:
        if light.strength and row.sign * sun_across > 0.05:  # its shadow falls into the street
            run = np.maximum(row.distance - row.sign * across, 0)
            source = ahead + run * np.float32(sun_ahead / abs(sun_across))
            in_shade |= run * np.float32(sun_up / abs(sun_across)) < row.height(source)
    sunlit = 1 - cv2.GaussianBlur(in_shade.astype(np.float32), (0, 0), 0.8)
    soft = cv2.GaussianBlur(contact[first:].astype(np.float32) / 255, (0, 0), 1.6)
    direct = np.float32(0.55 * light.strength * sun_up)
    return (np.float32(light.on(0, 1, 0)) - direct * (1 - sunlit)) * (1 - np.float32(0.55) * soft)


def _fill(mask: np.ndarray, camera, ground_points: np.ndarray) -> None:
    """Marks the convex hull of points (across, ahead) on the ground."""
    across, ahead = ground_points.T
    points = np.stack([across, np.zeros_like(across), np.maximum(ahead, 1.0)], axis=1)
    hull = cv2.convexHull(camera.project(points).astype(np.float32))
    cv2.fillConvexPoly(mask, np.round(hull).astype(np.int32), 255)
