"""People, on foot and on bicycles."""

from dataclasses import dataclass

import numpy as np

from .canvas import Board, Canvas, Label
from .street import Thing
from .textures import vary

SKINS = ((0.86, 0.66, 0.54), (0.72, 0.50, 0.38), (0.45, 0.30, 0.22))
CLOTHES = (
    (0.62, 0.14, 0.16),
    (0.16, 0.22, 0.40),
    (0.10, 0.10, 0.12),
    (0.72, 0.66, 0.54),
    (0.20, 0.40, 0.34),
    (0.76, 0.42, 0.16),
    (0.50, 0.24, 0.44),
    (0.80, 0.80, 0.78),
)
TROUSERS = ((0.14, 0.17, 0.26), (0.10, 0.10, 0.11), (0.36, 0.31, 0.25), (0.24, 0.30, 0.42))
HELMETS = ((0.90, 0.90, 0.88), (0.86, 0.80, 0.16), (0.80, 0.16, 0.14))
TUBE = (0.10, 0.10, 0.12)


@dataclass(frozen=True)
class Look:
    """Skin, hair and clothes of one person, and the helmet worn on a bicycle."""

    skin: np.ndarray
    hair: np.ndarray
    top: np.ndarray
    legs: np.ndarray
    helmet: np.ndarray

    @classmethod
    def sample(cls, rng: np.random.Generator) -> "Look":
        """Draw the colors of a person."""
        return cls(
            skin=vary(rng, rng.choice(SKINS), 0.04),
            hair=vary(rng, (0.20, 0.14, 0.10), 0.3),
            top=vary(rng, rng.choice(CLOTHES), 0.06),
            legs=vary(rng, rng.choice(TROUSERS), 0.06),
            helmet=vary(rng, rng.choice(HELMETS), 0.05),
        )


@dataclass(frozen=True)
class Walker(Thing):
    """A person that walks or stands."""

    size: float
    stride: float
    look: Look

    def footprint(self) -> tuple[float, float, float]:
        return 0.22, 0.15, self.size

    @classmethod
    def sample(cls, rng: np.random.Generator, across: float, ahead: float) -> "Walker":
        """Draw a random person at a position."""
        size, stride = rng.uniform(1.8, 2.15), rng.uniform(-0.26, 0.26)
        return cls(across, ahead, size, stride, Look.sample(rng))

    def draw(self, canvas: Canvas) -> None:
        """Paint legs, arms, trunk and head."""
        board = Board(canvas, self.across, self.ahead, Label.PERSON)
        light = canvas.light.on(0, 0.3, -0.8)
        top, legs = self.look.top * light, self.look.legs * light
        h, stride = self.size, self.stride
        hip, shoulder = 0.48 * h, 0.82 * h
        board.bar((-0.08, hip), (-0.10 - stride, 0.0), 0.19, legs * 0.8)
        board.bar((0.08, hip), (0.10 + stride, 0.0), 0.19, legs)
        board.bar((-0.23, shoulder), (-0.29 + 0.6 * stride, hip), 0.14, top * 0.75)
        board.bar((0.23, shoulder), (0.29 + 0.6 * stride, hip), 0.14, top * 0.85)
        trunk = [(-0.21, hip - 0.06), (0.21, hip - 0.06), (0.27, shoulder), (-0.27, shoulder)]
        board.polygon([*trunk[:3], (0.12, 0.87 * h), (-0.12, 0.87 * h), trunk[3]], top)
        board.box(-0.06, 0.85 * h, 0.06, 0.90 * h, self.look.skin * light)
        board.disc(0, 0.93 * h, 0.135, self.look.hair * light)
        board.disc(0.02, 0.915 * h, 0.11, self.look.skin * light)


@dataclass(frozen=True)
class Bicycle(Thing):
    """A bicycle seen from the side or at an angle, with or without its rider."""

    squeeze: float
    frame: np.ndarray
    rider: Look | None

    def footprint(self) -> tuple[float, float, float]:
        return 0.8 * abs(self.squeeze), 0.2, 1.9 if self.rider else 1.0

    @classmethod
    def sample(
        cls, rng: np.random.Generator, across: float, ahead: float, ridden: bool
    ) -> "Bicycle":
        """Draw a random bicycle at a position."""
        squeeze = rng.choice([-1, 1]) * rng.uniform(0.7, 1.0)
        color = vary(rng, rng.choice(CLOTHES), 0.06)
        return cls(across, ahead, squeeze, color, Look.sample(rng) if ridden else None)

    def draw(self, canvas: Canvas) -> None:
        """Paint wheels, frame and rider.

        The open wheels carry the bicycle's label, as annotators draw them.
        """
        board = Board(canvas, self.across, self.ahead, Label.BICYCLE, self.squeeze)
        light = canvas.light.on(0, 0.3, -0.8)
        radius, axle = 0.40, 0.62
        for x in (-axle, axle):
            board.ring(x, radius, radius, 0.7 * radius, TUBE)
        color = self.frame * light
        crank, saddle, head = (-0.08, 0.42), (-0.25, 1.02), (0.46, 0.98)
        for start, end in (
            ((-axle, radius), crank),
            ((-axle, radius), saddle),
            (crank, saddle),
            (crank, head),
            (saddle, head),
            ((axle, radius), head),
        ):
            board.bar(start, end, 0.10, color)
        board.box(-0.38, 1.00, -0.12, 1.09, TUBE)
        board.bar((0.40, 1.16), (0.58, 1.10), 0.09, TUBE)
        if self.rider:
            board = Board(canvas, self.across, self.ahead, Label.RIDER, self.squeeze)
            self._draw_rider(board, self.rider, light)

    @staticmethod
    def _draw_rider(board: Board, look: Look, light: float) -> None:
        """Paint a person that leans forward on the saddle."""
        top, legs = look.top * light, look.legs * light
        board.bar((-0.22, 1.10), (0.12, 0.86), 0.20, legs)
        board.bar((0.12, 0.90), (-0.04, 0.40), 0.16, legs * 0.9)
        board.polygon([(-0.36, 1.06), (-0.04, 1.04), (0.26, 1.62), (0.06, 1.74)], top)
        board.bar((0.16, 1.60), (0.48, 1.16), 0.13, top * 0.8)
        board.disc(0.27, 1.82, 0.15, look.skin * light)
        helmet = [(0.04, 1.82), (0.46, 1.84), (0.40, 1.98), (0.24, 2.04), (0.10, 1.98)]
        board.polygon(helmet, look.helmet * light)
