"""What a scene is painted on, far things first."""

from dataclasses import dataclass

import cv2
import numpy as np

from mmseg_reservoir.minicity.camera import Camera
from mmseg_reservoir.minicity.labels import Label

SUBPIXEL_BITS = 4  # cv2 takes polygon corners as fixed-point numbers


@dataclass(frozen=True)
class Light:
    """The sun (or the lack of it).

    Attributes:
        sun: Unit vector towards the sun in street coordinates (across, up, ahead).
        strength: 0 for an overcast sky, 1 for a cloudless one.
    """

    sun: tuple[float, float, float]
    strength: float

    def on(self, across: float, up: float, ahead: float) -> float:
        """Brightness of a surface with the given normal."""
        facing = max(0.0, across * self.sun[0] + up * self.sun[1] + ahead * self.sun[2])
        ambient = 0.84 + 0.08 * up
        return ambient * (1 - 0.26 * self.strength) + 0.55 * self.strength * facing


class Canvas:
    """Colour, glow, label and depth of each pixel; what is painted later lies in front.

    Attributes:
        camera: The camera, whose pixels these are.
        light: The light that falls on the scene.
        paint: float32 (rows, columns, 4): red, green, blue for display, and glow. Glow says how
            much light a pixel would send out by night (lamps, windows), 0 for most.
        meaning: float32 (rows, columns, 2): label and depth.
    """

    def __init__(self, camera: Camera, light: Light):
        self.camera = camera
        self.light = light
        self.paint = np.zeros((camera.rows, camera.columns, 4), np.float32)
        self.meaning = np.zeros((camera.rows, camera.columns, 2), np.float32)

    def polygon(
        self, pixels: np.ndarray, colour, label: Label, ahead: float, glow: float = 0.0, hole=None
    ):
        """Fills a polygon given by its pixels (N, 2).

        A hole shows what is behind, but carries the polygon's label and depth, as annotators draw
        the wheel of a bicycle.
        """
        outline = [_fixed_point(pixels)]
        with_hole = outline if hole is None else [*outline, _fixed_point(hole)]
        red, green, blue = (float(value) for value in colour)
        cv2.fillPoly(self.paint, with_hole, (red, green, blue, glow), cv2.LINE_8, SUBPIXEL_BITS)
        meaning = (float(label), float(ahead))
        cv2.fillPoly(self.meaning, outline, meaning, cv2.LINE_8, SUBPIXEL_BITS)


def _fixed_point(pixels: np.ndarray) -> np.ndarray:
    """Pixel positions as cv2 wants them: fixed-point numbers relative to pixel centres."""
    return np.round((np.asarray(pixels) - 0.5) * (1 << SUBPIXEL_BITS)).astype(np.int32)


class Board:
    """A flat figure that stands upright on the ground and faces the camera.

    Its own coordinates are metres: x to the right of its foot and y above the ground.
    """

    def __init__(self, canvas: Canvas, across: float, ahead: float, squeeze: float = 1.0):
        """Places a board.

        Args:
            canvas: What to paint on.
            across: Where its foot stands.
            ahead: Its depth.
            squeeze: Factor on x, for figures that are turned away.
        """
        self.canvas = canvas
        self.ahead = ahead
        self.scale = canvas.camera.focal / ahead
        self.squeeze = squeeze
        self.foot = np.array(
            [canvas.camera.column_of(across, ahead), canvas.camera.row_of(0.0, ahead)]
        )

    def pixels(self, points) -> np.ndarray:
        """Turns metres on the board into pixels."""
        points = np.asarray(points, dtype=np.float64)
        return self.foot + points * (self.scale * self.squeeze, -self.scale)

    def polygon(self, points, colour, label: Label, glow: float = 0.0):
        """Fills a polygon given in metres."""
        self.canvas.polygon(self.pixels(points), colour, label, self.ahead, glow)

    def box(self, x0, y0, x1, y1, colour, label: Label, glow: float = 0.0):
        """Fills an upright rectangle."""
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], colour, label, glow)

    def bar(self, start, end, width: float, colour, label: Label):
        """Draws a straight bar (a limb, a tube) of the given width."""
        start, end = np.asarray(start, float), np.asarray(end, float)
        along = end - start
        side = np.array([-along[1], along[0]]) * (width / 2 / max(np.hypot(*along), 1e-6))
        self.polygon([start + side, end + side, end - side, start - side], colour, label)

    def disc(self, x, y, radius, colour, label: Label, glow: float = 0.0, corners: int = 14):
        """Fills a disc, or a regular polygon with few corners."""
        self.polygon(_circle(x, y, radius, corners), colour, label, glow)

    def ring(self, x, y, radius, inner_radius, colour, label: Label):
        """Draws a ring with an open middle."""
        outer, inner = self.pixels(_circle(x, y, radius)), self.pixels(_circle(x, y, inner_radius))
        self.canvas.polygon(outer, colour, label, self.ahead, hole=inner)


def _circle(x: float, y: float, radius: float, corners: int = 14) -> np.ndarray:
    """Corners of a regular polygon that stands on a side."""
    angles = (np.arange(corners) + 0.5) * (2 * np.pi / corners) - np.pi / 2
    return np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
