"""The canvas of a scene, painted from far to near, and its labels."""

from dataclasses import dataclass
from enum import IntEnum

import cv2
import numpy as np

from .camera import Camera

SUBPIXEL_BITS = 4  # of the fixed-point numbers of cv2


class Label(IntEnum):
    """Cityscapes' train ids; MiniCity draws no trains (16) and no motorcycles (17)."""

    ROAD = 0
    SIDEWALK = 1
    BUILDING = 2
    WALL = 3
    FENCE = 4
    POLE = 5
    TRAFFIC_LIGHT = 6
    TRAFFIC_SIGN = 7
    VEGETATION = 8
    TERRAIN = 9
    SKY = 10
    PERSON = 11
    RIDER = 12
    CAR = 13
    TRUCK = 14
    BUS = 15
    BICYCLE = 18


@dataclass(frozen=True)
class Light:
    """The sunlight."""

    sun: tuple[float, float, float]  # unit vector towards it: across, up, ahead
    strength: float  # 0 for an overcast sky, 1 for a cloudless one

    def on(self, across: float, up: float, ahead: float) -> float:
        """Return the brightness of a surface by its normal."""
        facing = max(0.0, across * self.sun[0] + up * self.sun[1] + ahead * self.sun[2])
        ambient = 0.84 + 0.08 * up
        return ambient * (1 - 0.26 * self.strength) + 0.55 * self.strength * facing


class Canvas:
    """Color, label and depth of each pixel. Later paint covers earlier paint.

    `paint` is red, green, blue for display, and glow: how much light a pixel would send
    out by night (lamps, windows), 0 for most; `meaning` is label and depth.
    """

    def __init__(self, camera: Camera, light: Light):
        self.camera, self.light = camera, light
        self.paint = np.zeros((camera.rows, camera.columns, 4), np.float32)
        self.meaning = np.zeros((camera.rows, camera.columns, 2), np.float32)

    def polygon(
        self, pixels: np.ndarray, color, label: Label, ahead: float, glow: float = 0.0, hole=None
    ):
        """Fill a polygon of pixels (N, 2).

        A hole shows what is behind, but carries the polygon's label and depth, as annotators draw
        the wheel of a bicycle.
        """
        outline = [_fixed_point(pixels)]
        with_hole = outline if hole is None else [*outline, _fixed_point(hole)]
        red, green, blue = (float(value) for value in color)
        cv2.fillPoly(self.paint, with_hole, (red, green, blue, glow), cv2.LINE_8, SUBPIXEL_BITS)
        meaning = (float(label), float(ahead))
        cv2.fillPoly(self.meaning, outline, meaning, cv2.LINE_8, SUBPIXEL_BITS)


def _fixed_point(pixels: np.ndarray) -> np.ndarray:
    """Convert pixel positions to the fixed-point numbers of cv2, relative to pixel centers."""
    return np.round((np.asarray(pixels) - 0.5) * (1 << SUBPIXEL_BITS)).astype(np.int32)


class Board:
    """A flat figure of one label that stands upright on the ground and faces the camera.

    Its own coordinates are meters: x to the right of its foot and y above the ground. `squeeze` is
    a factor on x, for figures that are turned away.
    """

    def __init__(
        self, canvas: Canvas, across: float, ahead: float, label: Label, squeeze: float = 1.0
    ):
        camera, scale = canvas.camera, canvas.camera.focal / ahead
        self.canvas, self.ahead, self.label = canvas, ahead, label
        self.scale = np.array([scale * squeeze, -scale])
        self.foot = np.array([camera.column_of(across, ahead), camera.row_of(0.0, ahead)])

    def pixels(self, points) -> np.ndarray:
        """Convert meters on the board to pixels."""
        return self.foot + np.asarray(points, dtype=np.float64) * self.scale

    def polygon(self, points, color, glow: float = 0.0):
        """Fill a polygon in meters."""
        self.canvas.polygon(self.pixels(points), color, self.label, self.ahead, glow)

    def box(self, x0, y0, x1, y1, color, glow: float = 0.0):
        """Fill an upright rectangle."""
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], color, glow)

    def bar(self, start, end, width: float, color):
        """Draw a straight bar (a limb, a tube) of a width."""
        start, end = np.asarray(start, float), np.asarray(end, float)
        along = end - start
        side = np.array([-along[1], along[0]]) * (width / 2 / max(np.hypot(*along), 1e-6))
        self.polygon([start + side, end + side, end - side, start - side], color)

    def disc(self, x, y, radius, color, glow: float = 0.0, corners: int = 14):
        """Fill a disc, or a regular polygon with few corners."""
        self.polygon(_circle(x, y, radius, corners), color, glow)

    def ring(self, x, y, radius, inner_radius, color):
        """Draw a ring with an open middle."""
        outer, inner = self.pixels(_circle(x, y, radius)), self.pixels(_circle(x, y, inner_radius))
        self.canvas.polygon(outer, color, self.label, self.ahead, hole=inner)


def _circle(x: float, y: float, radius: float, corners: int = 14) -> np.ndarray:
    """Return the corners of a regular polygon that stands on a side."""
    angles = (np.arange(corners) + 0.5) * (2 * np.pi / corners) - np.pi / 2
    return np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
