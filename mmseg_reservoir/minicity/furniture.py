"""Objects at the curb: lamp posts, signs, traffic lights and trees."""

from dataclasses import dataclass

import numpy as np

from .canvas import Board, Canvas, Label
from .planes import plane_facing
from .street import Thing
from .surfaces import Foliage
from .textures import vary

STEEL = ((0.44, 0.45, 0.46), (0.24, 0.27, 0.26), (0.58, 0.58, 0.57))
RED, WHITE, BLUE = (0.76, 0.08, 0.09), (0.92, 0.92, 0.90), (0.08, 0.24, 0.62)
YELLOW, BLACK = (0.93, 0.74, 0.08), (0.06, 0.06, 0.06)
BARK = (0.27, 0.21, 0.16)


@dataclass(frozen=True)
class Post(Thing):
    """A post that carries a lamp, a sign or a traffic light."""

    kind: str  # "lamp", "sign" or "light"
    height: float
    width: float
    color: np.ndarray
    design: int  # number of the sign, or of the light that is on

    @classmethod
    def sample(cls, rng: np.random.Generator, across: float, ahead: float, kind: str) -> "Post":
        """Draw a random post at a position."""
        heights = {"lamp": (5.5, 7.5), "sign": (3.0, 3.7), "light": (3.5, 4.3)}
        return cls(
            across=across,
            ahead=ahead,
            kind=kind,
            height=rng.uniform(*heights[kind]),
            width=rng.uniform(0.24, 0.34),
            color=vary(rng, rng.choice(STEEL)),
            design=int(rng.integers(60)),
        )

    @property
    def lamp(self) -> tuple[float, float, float]:
        """Position of its lamp in street coordinates."""
        return (self.across - np.sign(self.across) * 1.5, self.height, self.ahead)

    def footprint(self) -> tuple[float, float, float]:
        return self.width / 2, self.width / 2, self.height

    def draw(self, canvas: Canvas) -> None:
        """Paint the post, rounded by a bright and a dark side, and its lamp, sign or light."""
        board = Board(canvas, self.across, self.ahead, Label.POLE)
        color = self.color * canvas.light.on(0, 0, -0.7)
        half = self.width / 2
        board.box(-half, 0, half, self.height, color * 0.8)
        sunny = np.sign(canvas.light.sun[0])
        low, high = sorted((sunny * half * 0.1, sunny * half))
        board.box(low, 0, high, self.height, np.clip(color * 1.2, 0, 1))
        if self.kind == "lamp":
            self._draw_lamp(board, color)
        elif self.kind == "sign":
            self._draw_sign(Board(canvas, self.across, self.ahead, Label.TRAFFIC_SIGN))
        else:
            self._draw_light(Board(canvas, self.across, self.ahead, Label.TRAFFIC_LIGHT))

    def _draw_lamp(self, board: Board, color: np.ndarray) -> None:
        """Paint an arm over the road with a lamp at its end."""
        inwards = -np.sign(self.across)
        board.bar((0, self.height), (inwards * 1.5, self.height), 0.20, color)
        low, high = sorted((inwards * 1.0, inwards * 1.9))
        board.box(low, self.height - 0.14, high, self.height + 0.14, color * 0.9)
        board.box(low, self.height - 0.24, high, self.height - 0.10, (0.9, 0.88, 0.8), 3.0)

    def _draw_sign(self, board: Board) -> None:
        """Paint one of six kinds of traffic sign."""
        y, light = self.height - 0.5, board.canvas.light.on(0, 0, -1)
        red, white, blue, yellow = (np.array(c) * light for c in (RED, WHITE, BLUE, YELLOW))
        match self.design % 6:
            case 0:  # speed limit
                board.disc(0, y, 0.56, red)
                board.disc(0, y, 0.40, white)
                board.box(-0.22, y - 0.18, -0.05, y + 0.18, BLACK)
                board.box(0.05, y - 0.18, 0.22, y + 0.18, BLACK)
            case 1:  # no entry
                board.disc(0, y, 0.56, red)
                board.box(-0.36, y - 0.10, 0.36, y + 0.10, white)
            case 2:  # warning
                board.polygon([(-0.64, y - 0.5), (0.64, y - 0.5), (0, y + 0.6)], red)
                board.polygon([(-0.38, y - 0.36), (0.38, y - 0.36), (0, y + 0.3)], white)
            case 3:  # mandatory direction
                board.disc(0, y, 0.56, blue)
                board.bar((-0.28, y), (0.20, y), 0.15, white)
                board.polygon([(0.10, y - 0.24), (0.42, y), (0.10, y + 0.24)], white)
            case 4:  # priority road
                board.disc(0, y, 0.68, white, corners=4)
                board.polygon([(-0.46, y), (0, y - 0.46), (0.46, y), (0, y + 0.46)], yellow)
            case _:  # direction board
                board.box(-0.85, y - 0.42, 0.85, y + 0.42, white)
                board.box(-0.80, y - 0.37, 0.80, y + 0.37, blue)
                board.box(-0.6, y + 0.06, 0.5, y + 0.18, white)
                board.box(-0.6, y - 0.20, 0.2, y - 0.08, white)

    def _draw_light(self, board: Board) -> None:
        """Paint a dark box with three lights, one of them on."""
        y = self.height - 0.75
        board.box(-0.36, y - 0.88, 0.36, y + 0.88, (0.13, 0.14, 0.13))
        colors = ((0.98, 0.12, 0.08), (0.98, 0.66, 0.10), (0.10, 0.92, 0.45))
        for number, bright in enumerate(colors):
            on = number == self.design % 3
            shown = bright if on else 0.28 * np.array(bright)
            board.disc(0, y + 0.55 * (1 - number), 0.23, shown, 1.5 if on else 0.0)


@dataclass(frozen=True)
class Tree(Thing):
    """A trunk with a leafy crown, or a bush without trunk."""

    trunk: float
    width: float
    height: float
    seed: int

    @classmethod
    def sample(cls, rng: np.random.Generator, across: float, ahead: float) -> "Tree":
        """Draw a random tree (mostly) or bush at a position."""
        seed = int(rng.integers(1 << 16))
        if rng.random() < 0.2:
            return cls(across, ahead, 0.0, rng.uniform(1.5, 2.6), rng.uniform(1.3, 2.2), seed)
        size = rng.uniform(3.4, 6.0)
        return cls(across, ahead, rng.uniform(2.0, 3.2), size, size * rng.uniform(0.9, 1.4), seed)

    def footprint(self) -> tuple[float, float, float]:
        """Return the size of the trunk; the crown's shadow is cast from its full height."""
        return 0.3 * self.width, 0.3 * self.width, self.trunk + 0.8 * self.height

    def draw(self, canvas: Canvas) -> None:
        """Paint trunk and crown."""
        rng = np.random.default_rng(self.seed)
        light = canvas.light.on(0, 0.4, -0.6)
        if self.trunk:
            board = Board(canvas, self.across, self.ahead, Label.VEGETATION)
            bark = vary(rng, BARK) * light
            top = self.trunk + 0.4 * self.height
            board.polygon([(-0.2, 0), (0.2, 0), (0.12, top), (-0.12, top)], bark)
            board.polygon([(0, 0), (0.2, 0), (0.12, top), (0, top)], bark * 0.7)
        sunny_side = canvas.light.sun[0] * canvas.light.strength
        crown = Foliage.sample(rng, self.width, self.height, light, True, sunny_side)
        lift = max(self.trunk - 0.2 * self.height, -0.15 * self.height)
        plane_facing(canvas, self.across - self.width / 2, self.width, self.ahead, crown, lift)
