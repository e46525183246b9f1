"""The pinhole camera and the street coordinates of MiniCity."""

from dataclasses import dataclass, replace

import numpy as np

FARTHEST = 400.0  # meters; ground beyond it is drawn at this distance
DEPTHS = np.geomspace(0.5, FARTHEST, 400)  # depths at which a wall is projected


@dataclass(frozen=True)
class Camera:
    """A pinhole camera along a gently bending street.

    Street coordinates are meters: `across` (right of the road's axis), `up` (above the road) and
    `ahead` (depth along the view). The axis of the road drifts sideways with depth, by the camera's
    heading and by the bend of the street, so a straight pinhole projection sees a curved road.
    """

    rows: int  # image height in pixels
    columns: int
    focal: float  # focal length in pixels
    horizon: float  # row of the horizon, by the camera's pitch
    eye: float  # height above the road
    offset: float  # position of the camera across the road
    heading: float  # sideways drift of the road's axis per meter ahead
    bend: float  # curvature of the road in 1/m

    @classmethod
    def sample(cls, rng: np.random.Generator, rows: int, columns: int) -> "Camera":
        """Draw a car's camera: lens, pitch, height, position in its lane, heading and bend."""
        return cls(
            rows=rows,
            columns=columns,
            focal=columns * rng.uniform(0.66, 0.80),
            horizon=rows * rng.uniform(0.40, 0.52),
            eye=rng.uniform(1.25, 1.75),
            offset=rng.uniform(1.0, 2.4),
            heading=rng.uniform(-0.07, 0.07),
            bend=rng.uniform(-1, 1) / 450 if rng.random() < 0.5 else 0.0,
        )

    def resized(self, factor: float) -> "Camera":
        """Return the camera with `factor` times the pixels along each side."""
        return replace(
            self,
            rows=round(self.rows * factor),
            columns=round(self.columns * factor),
            focal=self.focal * factor,
            horizon=self.horizon * factor,
        )

    def drift(self, ahead):
        """Return the sideways distance from the optical axis to the road's axis at a depth."""
        return self.heading * ahead + 0.5 * self.bend * ahead**2 - self.offset

    def project(self, points: np.ndarray) -> np.ndarray:
        """Project street points (N, 3) to pixels (N, 2) as (column, row)."""
        across, up, ahead = np.asarray(points, dtype=np.float64).T
        return np.stack([self.column_of(across, ahead), self.row_of(up, ahead)], axis=1)

    def row_of(self, up: float, ahead):
        """Return the image row of a height at a depth."""
        return self.horizon + self.focal * (self.eye - up) / ahead

    def column_of(self, across: float, ahead):
        """Return the image column of a sideways position at a depth."""
        return self.columns / 2 + self.focal * (across + self.drift(ahead)) / ahead

    def ground(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the first row of ground, and `across` and `ahead` of each pixel below it."""
        first = max(int(np.ceil(self.horizon)), 0)
        below = np.arange(first, self.rows) + 0.5 - self.horizon
        ahead = np.minimum(self.focal * self.eye / np.maximum(below, 1e-3), FARTHEST)[:, None]
        columns = np.arange(self.columns)[None] + 0.5 - self.columns / 2
        across = columns * (ahead / self.focal) - self.drift(ahead)
        ahead = np.broadcast_to(ahead, across.shape)
        return first, across.astype(np.float32), ahead.astype(np.float32)

    def wall_depth(self, across: float) -> np.ndarray:
        """Return the depth at which each column sees a wall along the street, or inf.

        In a bend the wall turns away at some depth and hides its own continuation, so only the part
        up to there counts.
        """
        ahead = DEPTHS
        columns = self.column_of(across, ahead)
        towards_right = columns[1] > columns[0]
        steps = np.diff(columns) if towards_right else -np.diff(columns)
        turning = np.argmax(steps <= 0) if np.any(steps <= 0) else len(steps)
        columns, ahead = columns[: turning + 1], ahead[: turning + 1]
        if not towards_right:
            columns, ahead = columns[::-1], ahead[::-1]
        centers = np.arange(self.columns) + 0.5
        return np.interp(centers, columns, ahead, left=np.inf, right=np.inf)
