"""Vehicles as blocks in perspective, with windows, lamps and wheels on their faces."""

from dataclasses import dataclass

import numpy as np

from .canvas import Canvas, Label
from .street import Thing

RUBBER, HUB = (0.07, 0.07, 0.08), (0.50, 0.50, 0.52)

# The corners of each face as seen from outside: lower left, lower right, upper right, upper left,
# where a corner's number is 4 * front + 2 * right + top; and its normal (sideways, up, forwards).
FACES = {
    "rear": ([0, 2, 3, 1], (0, 0, -1)),
    "front": ([6, 4, 5, 7], (0, 0, 1)),
    "left": ([4, 0, 1, 5], (-1, 0, 0)),
    "right": ([2, 6, 7, 3], (1, 0, 0)),
    "top": ([1, 3, 7, 5], (0, 1, 0)),
}
ANGLES = np.linspace(0, 2 * np.pi, 14, endpoint=False)
CIRCLE = np.stack([np.zeros(14), np.sin(ANGLES), np.cos(ANGLES)], axis=1)


@dataclass
class Block:
    """A box with six free faces; meters from the vehicle's rear, and above the ground."""

    bottom: tuple[float, float, float, float]  # rear end, front end, half width, height
    top: tuple[float, float, float, float, float]  # the same, with the heights at rear and front
    color: np.ndarray
    details: dict[str, list]  # by face: ((x0, y0, x1, y1) in parts of the face, color, glow)
    wheels: tuple[float, ...] = ()  # positions along the sides

    def corners(self) -> np.ndarray:
        """Return the corners [front, right, top] as (sideways, up, forwards) of the vehicle."""
        corners = np.empty((2, 2, 2, 3))
        for top, (rear, front, half, *heights) in enumerate((self.bottom, self.top)):
            corners[:, :, top, 0] = (-half, half)
            corners[:, :, top, 1] = np.reshape(heights, (-1, 1))
            corners[:, :, top, 2] = [[rear], [front]]
        return corners


@dataclass(frozen=True)
class Vehicle(Thing):
    """A vehicle that stands on the road."""

    label: Label  # CAR, TRUCK or BUS
    blocks: list[Block]  # in the order to paint them
    length: float
    half_width: float
    height: float
    yaw: float  # 0 when it drives away from the camera, pi when it comes towards it
    wheel: float  # radius of its wheels

    @property
    def nearest(self) -> float:
        along, across = abs(np.cos(self.yaw)), abs(np.sin(self.yaw))
        return self.ahead - along * self.length / 2 - across * self.half_width

    def footprint(self) -> tuple[float, float, float]:
        along, across = abs(np.cos(self.yaw)), abs(np.sin(self.yaw))
        half_across = along * self.half_width + across * self.length / 2
        half_ahead = along * self.length / 2 + across * self.half_width
        return half_across, half_ahead, 0.85 * self.height

    def draw(self, canvas: Canvas) -> None:
        """Paint the faces that are turned to the camera, with their details."""
        for block in self.blocks:
            points = self._to_street(block.corners().reshape(8, 3))
            pixels = canvas.camera.project(points)
            for name, (face, _) in FACES.items():
                quad = pixels[face]
                (dx1, dy1), (dx2, dy2) = quad[2] - quad[0], quad[3] - quad[1]
                if dx1 * dy2 < dy1 * dx2:  # otherwise its corners run the other way: turned away
                    self._paint_face(canvas, block, name, quad, float(points[face, 2].mean()))

    def _paint_face(self, canvas, block, name, quad, ahead) -> None:
        """Paint one visible face with its details and wheels."""
        _, (sideways, up, forwards) = FACES[name]
        cos, sin = np.cos(self.yaw), np.sin(self.yaw)  # the normal turns with the vehicle
        normal = (sideways * cos + forwards * sin, up, forwards * cos - sideways * sin)
        light = canvas.light.on(*normal)
        canvas.polygon(quad, np.minimum(block.color * light, 1), self.label, ahead)
        for (x0, y0, x1, y1), color, glow in block.details.get(name, ()):
            detail = _within(quad, x0, y0, x1, y1)
            canvas.polygon(detail, np.asarray(color) * light, self.label, ahead, glow)
        if name in ("left", "right"):
            self._paint_wheels(canvas, block, name, ahead)

    def _paint_wheels(self, canvas, block, side, ahead) -> None:
        """Paint tires and hubs on a side of the vehicle."""
        sideways = block.bottom[2] if side == "right" else -block.bottom[2]
        for along in block.wheels:
            tire = CIRCLE * self.wheel + (sideways, self.wheel, along)
            pixels = canvas.camera.project(self._to_street(tire))
            canvas.polygon(pixels, RUBBER, self.label, ahead)
            center = pixels.mean(axis=0)
            canvas.polygon(center + 0.55 * (pixels - center), HUB, self.label, ahead)

    def _to_street(self, points: np.ndarray) -> np.ndarray:
        """Convert points of the vehicle (sideways, up, forwards) to street points."""
        sideways, up, forwards = points[:, 0], points[:, 1], points[:, 2] - self.length / 2
        cos, sin = np.cos(self.yaw), np.sin(self.yaw)
        across = self.across + sideways * cos + forwards * sin
        ahead = self.ahead + forwards * cos - sideways * sin
        return np.stack([across, up, np.maximum(ahead, 0.6)], axis=1)


def _within(quad: np.ndarray, x0: float, y0: float, x1: float, y1: float) -> np.ndarray:
    """Return a rectangle inside a quad. Its corners run from the lower left to the upper left."""
    weights = [
        ((1 - x) * (1 - y), x * (1 - y), x * y, (1 - x) * y)
        for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    ]
    return np.array(weights) @ quad
