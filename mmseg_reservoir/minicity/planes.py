"""Textured upright planes: along the street (facades, fences) or facing the camera (trees)."""

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from .canvas import Canvas, Label

NEAREST = 0.8  # meters; planes are cut off in front of it


@dataclass(frozen=True)
class Surface:
    """The look of an upright plane."""

    label: ClassVar[Label]
    height: float

    def __call__(self, along: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return color and glow (..., 4) at meters along and up, and the solid part (None: all)."""
        raise NotImplementedError


def plane_along(canvas: Canvas, across: float, near: float, far: float, surface: Surface) -> None:
    """Paint an upright plane that runs along the street from `near` to `far`.

    The gaps of a fence show what is behind, but carry its label and depth, as annotators draw it.
    """
    depth = canvas.camera.wall_depth(across)
    seen = np.flatnonzero((depth >= max(near, NEAREST)) & (depth < far))
    if len(seen) == 0:
        return
    columns = slice(seen[0], seen[-1] + 1)
    depth = depth[columns].astype(np.float32)
    _paint(canvas, columns, depth, depth - near, surface, 0.0)


def plane_facing(
    canvas: Canvas, across: float, width: float, ahead: float, surface: Surface, lift: float = 0.0
) -> None:
    """Paint an upright plane that faces the camera, from `across` to `across + width`."""
    camera = canvas.camera
    left, right = camera.column_of(across, ahead), camera.column_of(across + width, ahead)
    first, last = max(round(left), 0), min(round(right), camera.columns)
    if first >= last:
        return
    along = (np.arange(first, last, dtype=np.float32) + 0.5 - left) * (ahead / camera.focal)
    depth = np.full(last - first, ahead, np.float32)
    _paint(canvas, slice(first, last), depth, along, surface, lift)


def _paint(canvas, columns, depth, along, surface, lift) -> None:
    """Paint the columns of a plane, each at its own depth."""
    camera = canvas.camera
    top = max(int(np.floor(camera.row_of(surface.height + lift, depth).min())), 0)
    bottom = min(int(np.ceil(camera.row_of(lift, depth).max())), camera.rows)
    if top >= bottom:
        return
    rows = slice(top, bottom)
    below = np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5 - camera.horizon
    up = np.float32(camera.eye - lift) - below * (depth / camera.focal)[None]
    inside = (up >= 0) & (up < surface.height)
    paint, solid = surface(np.broadcast_to(along[None], up.shape), up)
    solid = inside if solid is None else inside & solid
    cv2.copyTo(paint, solid.view(np.uint8), canvas.paint[rows, columns])
    covered = inside if surface.label is Label.FENCE else solid
    canvas.meaning[rows, columns, 0][covered] = float(surface.label)
    np.copyto(canvas.meaning[rows, columns, 1], depth[None], where=covered)
