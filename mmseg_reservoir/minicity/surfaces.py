"""The looks of upright planes: facades, fences, walls, hedges and tree crowns."""

from dataclasses import dataclass

import numpy as np

from .canvas import Label
from .planes import Surface
from .textures import fraction, look_up, noise_tile, vary

WALL_COLORS = (
    (0.74, 0.68, 0.58),
    (0.66, 0.42, 0.33),
    (0.58, 0.36, 0.30),
    (0.80, 0.74, 0.62),
    (0.62, 0.60, 0.57),
    (0.78, 0.64, 0.46),
    (0.70, 0.56, 0.52),
    (0.56, 0.60, 0.62),
    (0.82, 0.80, 0.76),
)
MASONRY_COLORS = ((0.52, 0.51, 0.49), (0.50, 0.44, 0.36))
FENCE_COLORS = ((0.84, 0.82, 0.77), (0.20, 0.25, 0.23), (0.46, 0.33, 0.22), (0.62, 0.64, 0.66))
ROOF_COLORS = ((0.42, 0.24, 0.20), (0.33, 0.33, 0.36), (0.48, 0.30, 0.22), (0.28, 0.26, 0.26))
SHOP_COLORS = ((0.30, 0.32, 0.30), (0.55, 0.20, 0.16), (0.18, 0.28, 0.42), (0.50, 0.46, 0.40))
LEAF_COLORS = ((0.24, 0.38, 0.15), (0.30, 0.42, 0.18), (0.20, 0.33, 0.17), (0.40, 0.42, 0.16))


def _shades(color: np.ndarray, grain: np.ndarray) -> np.ndarray:
    """Return paint (..., 4) of one color, brighter or darker by the grain (...), without glow."""
    return np.append(color, np.float32(0)) * grain[..., None]


@dataclass(frozen=True)
class Facade(Surface):
    """A house front: plaster or brick, rows of windows, a ground floor, a roof edge."""

    label = Label.BUILDING
    wall: np.ndarray
    roof: np.ndarray
    shop: np.ndarray
    glass: np.ndarray
    bricks: bool
    base: float
    storey: float
    bay: float
    window: tuple[float, float]
    roof_height: float
    seed: int
    brightness: float

    @classmethod
    def sample(cls, rng: np.random.Generator, height: float, brightness: float = 1.0) -> "Facade":
        """Draw the style of one house."""
        return cls(
            height=height,
            wall=vary(rng, rng.choice(WALL_COLORS), 0.07),
            roof=vary(rng, rng.choice(ROOF_COLORS)),
            shop=vary(rng, rng.choice(SHOP_COLORS)),
            glass=vary(rng, (0.27, 0.32, 0.38), 0.12),
            bricks=rng.random() < 0.4,
            base=rng.uniform(3.2, 4.4),
            storey=rng.uniform(2.8, 3.5),
            bay=rng.uniform(2.2, 3.8),
            window=(rng.uniform(0.36, 0.66), rng.uniform(0.45, 0.66)),
            roof_height=(0.6, 1.2, 2.4)[rng.integers(3)],
            seed=int(rng.integers(1 << 16)),
            brightness=brightness,
        )

    def __call__(self, along: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        bay, storey = along[:1] / self.bay, (up - self.base) * np.float32(1 / self.storey)
        bay_number, storey_number = np.floor(bay), np.floor(storey)
        off_x, off_y = np.abs(bay - bay_number - 0.5), np.abs(storey - storey_number - 0.5)
        half_width, half_height = self.window[0] / 2, self.window[1] / 2
        eaves = self.height - self.roof_height
        shop = up < self.base - 0.5
        pane = (off_x < half_width) & (off_y < half_height) & (up > self.base)
        pane |= shop & (off_x < 0.40) & (up > 0.5)

        kind = ((off_x < half_width + 0.05) & (off_y < half_height + 0.06)).view(np.uint8)
        kind[up < self.base] = 4
        kind[shop] = 3
        kind[pane] = 2
        kind[up >= eaves] = 5
        frame = np.clip(self.wall * 1.25 + 0.06, 0, 1)
        palette = [self.wall, frame, self.glass, self.shop, self.wall * 0.8, self.roof]
        palette = np.concatenate([np.stack(palette) * self.brightness, np.zeros((6, 1))], axis=1)
        paint = palette.astype(np.float32)[kind]

        grain = 1 + 0.10 * look_up(noise_tile(0.8), along * 18 + self.seed, up * 18)
        if self.bricks:
            course = up * 4
            number = np.floor(course)
            joint = (course - number < 0.22) | (fraction(along * 2 + 0.5 * number) < 0.12)
            grain[joint & (kind == 0)] *= 1.16
        roof = kind == 5
        grain[roof] *= 0.85 + 0.3 * fraction(up[roof] * 3)
        # each pane reflects another piece of sky or curtain, and some are lit by night
        pane &= ~roof
        dice = np.random.default_rng(self.seed).random(128, dtype=np.float32)
        luck = dice[(bay_number * 7 + storey_number * 31).astype(np.int32)[pane] & 127]
        grain[pane] = 0.65 + 0.9 * luck**2 + 0.25 * off_y[pane]
        paint *= grain[..., None]
        paint[..., 3][pane] = np.where(luck > 0.62, 0.35 + luck, 0)
        return paint, None


@dataclass(frozen=True)
class Masonry(Surface):
    """A free-standing wall of concrete or stone blocks, stained towards the ground."""

    label = Label.WALL
    color: np.ndarray
    block: float
    seed: float

    @classmethod
    def sample(cls, rng: np.random.Generator, height: float, brightness: float) -> "Masonry":
        """Draw gray concrete or ochre stone."""
        color = vary(rng, rng.choice(MASONRY_COLORS)) * brightness
        return cls(height, color, rng.uniform(0.4, 0.8), rng.uniform(0, 256))

    def __call__(self, along: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        row = np.floor(up / self.block)
        joint = fraction(up / self.block) < 0.13
        joint |= fraction(along / (2 * self.block) + 0.5 * row) < 0.06
        grain = 1 + 0.13 * look_up(noise_tile(1.0), along * 16 + self.seed, up * 16)
        grain *= np.where(joint, 0.66, 1) * (0.8 + 0.2 * np.clip(up, 0, 1))
        return _shades(self.color, grain), None


@dataclass(frozen=True)
class Pickets(Surface):
    """A fence of upright bars between two rails."""

    label = Label.FENCE
    color: np.ndarray
    pitch: float

    @classmethod
    def sample(cls, rng: np.random.Generator, height: float, brightness: float) -> "Pickets":
        """Draw painted wood or iron."""
        color = vary(rng, rng.choice(FENCE_COLORS)) * brightness
        return cls(height, color, rng.uniform(0.34, 0.55))

    def __call__(self, along: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        bar = fraction(along / self.pitch)
        rail = (np.abs(up - 0.85 * self.height) < 0.09) | (np.abs(up - 0.2 * self.height) < 0.07)
        grain = np.where(rail, 0.9, 0.78 + 0.35 * bar)
        return _shades(self.color, grain), rail | (bar < 0.62)


@dataclass(frozen=True)
class Foliage(Surface):
    """Leaves with a lumpy outline: the crown of a tree, or a hedge.

    The outline is where an implicit shape plus noise crosses zero; light falls from the sun's side.
    """

    label = Label.VEGETATION
    color: np.ndarray
    width: float
    round: bool
    raggedness: float
    sunny_side: float
    seed: float

    @classmethod
    def sample(
        cls, rng, width: float, height: float, brightness, round: bool = False, sunny_side=0.0
    ) -> "Foliage":
        """Draw a kind of tree or hedge of a size."""
        color = vary(rng, rng.choice(LEAF_COLORS), 0.09) * brightness
        seed, ragged = rng.uniform(0, 256), rng.uniform(0.16, 0.30)
        return cls(height, color, width, round, ragged, sunny_side, seed)

    def __call__(self, along: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        lumps = look_up(noise_tile(1.5), along * 14 + self.seed, up * 14 + 3 * self.seed)
        leaves = look_up(noise_tile(0.7), along * 26 + self.seed, up * 26)
        x, y = 2 * along / self.width - 1, 2 * up / self.height - 1
        if self.round:
            radius = x**2 + y**2
            solid = (radius + self.raggedness * lumps + 0.05 * leaves < 0.78) & (radius < 1)
        else:
            solid = y + self.raggedness * lumps < 0.7
        light = 0.92 + 0.22 * y + 0.16 * lumps + 0.24 * leaves + 0.3 * self.sunny_side * x
        return _shades(self.color, np.maximum(light, 0.25)), solid
