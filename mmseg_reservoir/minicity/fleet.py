"""The models on the road: cars, trucks and buses, placed by the depth of their nearer end."""

from itertools import pairwise

import numpy as np

from .canvas import Label
from .textures import vary
from .vehicles import RUBBER, Block, Vehicle

PAINTS = (
    (0.86, 0.86, 0.85),
    (0.66, 0.67, 0.69),
    (0.34, 0.35, 0.37),
    (0.12, 0.12, 0.14),
    (0.16, 0.24, 0.46),
    (0.62, 0.11, 0.11),
    (0.14, 0.34, 0.28),
    (0.66, 0.58, 0.44),
    (0.82, 0.60, 0.14),
)
BUS_PAINTS = ((0.86, 0.70, 0.12), (0.72, 0.14, 0.13), (0.20, 0.42, 0.66), (0.30, 0.56, 0.32))
GLASS = (0.15, 0.18, 0.22)
RED_LAMP, WHITE_LAMP, PLATE = (0.80, 0.06, 0.05), (0.97, 0.95, 0.88), (0.88, 0.88, 0.84)


def _pair(x0: float, y0: float, x1: float, y1: float, color, glow: float) -> list:
    """Return a rectangle and its mirror image, for a pair of lamps."""
    return [((x0, y0, x1, y1), color, glow), ((1 - x1, y0, 1 - x0, y1), color, glow)]


def _both_sides(details: list) -> dict[str, list]:
    """Return the same details for the left and the right."""
    return {"left": details, "right": details}


def car(rng: np.random.Generator, across: float, near: float, yaw: float) -> Vehicle:
    """Return a sedan, station wagon or small van, in one of the usual paints."""
    length, half, height = rng.uniform(3.9, 4.8), rng.uniform(0.86, 0.96), rng.uniform(1.42, 1.75)
    paint = vary(rng, rng.choice(PAINTS), 0.05)
    waist = 0.60 * height
    dark = paint * 0.62
    lamp_glow = 1.0 if rng.random() < 0.6 else 0.0
    stripes = [((0.0, 0.0, 1.0, 0.22), dark, 0), ((0.0, 0.80, 1.0, 0.86), paint * 1.12, 0)]
    body = Block(
        bottom=(0.0, length, half, 0.26),
        top=(0.05, length - 0.05, half, waist, waist * rng.uniform(0.82, 0.95)),
        color=paint,
        details={
            "rear": [
                ((0.0, 0.0, 1.0, 0.30), dark, 0),
                *_pair(0.03, 0.52, 0.22, 0.88, RED_LAMP, lamp_glow),
                ((0.36, 0.36, 0.64, 0.56), PLATE, 0),
            ],
            "front": [
                ((0.0, 0.0, 1.0, 0.26), dark, 0),
                ((0.28, 0.36, 0.72, 0.66), RUBBER, 0),
                *_pair(0.03, 0.50, 0.24, 0.84, WHITE_LAMP, 2 * lamp_glow),
                ((0.36, 0.10, 0.64, 0.28), PLATE, 0),
            ],
            **_both_sides(stripes),
        },
        wheels=(0.19 * length, 0.80 * length),
    )
    tail = rng.choice([0.02, 0.16])  # station wagon or sedan
    panes = [((0.08, 0.12, 0.46, 0.86), GLASS, 0), ((0.52, 0.12, 0.92, 0.86), GLASS, 0)]
    cabin = Block(
        bottom=(tail * length, 0.76 * length, 0.96 * half, waist - 0.04),
        top=((tail + 0.07) * length, 0.58 * length, 0.80 * half, height, height),
        color=paint,
        details={
            "rear": [((0.08, 0.10, 0.92, 0.84), GLASS, 0)],
            "front": [((0.06, 0.08, 0.94, 0.90), GLASS, 0)],
            **_both_sides(panes),
        },
    )
    blocks = [body, cabin]
    return Vehicle(across, near + length / 2, Label.CAR, blocks, length, half, height, yaw, 0.33)


def truck(rng: np.random.Generator, across: float, near: float, yaw: float) -> Vehicle:
    """Return a truck: a tall cargo box behind a colored cab."""
    length, half, height = rng.uniform(6.5, 8.5), rng.uniform(1.15, 1.25), rng.uniform(3.0, 3.6)
    paint = vary(rng, rng.choice(PAINTS), 0.05)
    canvas_color = vary(rng, rng.choice([(0.86, 0.86, 0.83), (0.76, 0.78, 0.80)]), 0.04)
    stripe = vary(rng, rng.choice(PAINTS[4:]), 0.05)
    cab_length = 1.9
    chassis = Block(
        bottom=(0.0, length, 0.94 * half, 0.45),
        top=(0.0, length, 0.94 * half, 0.95, 0.95),
        color=np.array([0.16, 0.16, 0.17], np.float32),
        details={"rear": _pair(0.03, 0.3, 0.20, 0.9, RED_LAMP, 1.0)},
        wheels=(0.16 * length, 0.30 * length, 0.86 * length),
    )
    box = Block(
        bottom=(0.0, length - cab_length - 0.15, half, 0.95),
        top=(0.0, length - cab_length - 0.15, half, height, height),
        color=canvas_color,
        details={
            "rear": [((0.49, 0.03, 0.51, 0.97), (0.40, 0.40, 0.40), 0)],
            **_both_sides([((0.0, 0.34, 1.0, 0.56), stripe, 0)]),
        },
    )
    cab_top = 0.84 * height
    cab = Block(
        bottom=(length - cab_length, length, half, 0.6),
        top=(length - cab_length, length - 0.12, 0.95 * half, cab_top, cab_top),
        color=paint,
        details={
            "front": [
                ((0.08, 0.50, 0.92, 0.86), GLASS, 0),
                ((0.22, 0.20, 0.78, 0.40), RUBBER, 0),
                *_pair(0.04, 0.06, 0.22, 0.18, WHITE_LAMP, 2.0),
            ],
            "left": [((0.12, 0.50, 0.80, 0.86), GLASS, 0)],
            "right": [((0.20, 0.50, 0.88, 0.86), GLASS, 0)],
        },
    )
    # paint from far to near
    blocks = [chassis, cab, box] if np.cos(yaw) > 0 else [chassis, box, cab]
    return Vehicle(across, near + length / 2, Label.TRUCK, blocks, length, half, height, yaw, 0.48)


def bus(rng: np.random.Generator, across: float, near: float, yaw: float) -> Vehicle:
    """Return a city bus: one long box with a band of windows, in a bright livery."""
    length, half, height = rng.uniform(9.0, 11.5), 1.25, rng.uniform(2.9, 3.2)
    paint = vary(rng, rng.choice(BUS_PAINTS), 0.05)
    edges = np.linspace(0.03, 0.97, 8)
    panes = [((a + 0.008, 0.46, b - 0.008, 0.86), GLASS, 0.4) for a, b in pairwise(edges)]
    skirt = ((0.0, 0.0, 1.0, 0.10), paint * 0.5, 0)
    body = Block(
        bottom=(0.0, length, half, 0.34),
        top=(0.0, length - 0.1, 0.97 * half, height, height),
        color=paint,
        details={
            "rear": [
                skirt,
                ((0.12, 0.50, 0.88, 0.84), GLASS, 0.2),
                *_pair(0.03, 0.16, 0.16, 0.34, RED_LAMP, 1.0),
            ],
            "front": [
                skirt,
                ((0.06, 0.34, 0.94, 0.84), GLASS, 0.3),
                ((0.22, 0.87, 0.78, 0.96), (0.95, 0.62, 0.12), 0.8),
                *_pair(0.04, 0.12, 0.20, 0.24, WHITE_LAMP, 2.0),
            ],
            **_both_sides([skirt, *panes]),
        },
        wheels=(0.25 * length, 0.76 * length),
    )
    return Vehicle(across, near + length / 2, Label.BUS, [body], length, half, height, yaw, 0.46)
