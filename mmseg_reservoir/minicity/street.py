"""The parts of a street: its two sides, and the objects on it."""

from dataclasses import dataclass

import numpy as np

from .canvas import Canvas, Label
from .surfaces import Facade


@dataclass(frozen=True)
class House:
    """A house beside the street, from `near` to `far`."""

    near: float
    far: float
    facade: Facade


@dataclass(frozen=True)
class Barrier:
    """A fence, a wall or a hedge that runs along the street."""

    label: Label
    across: float
    near: float
    far: float
    height: float


@dataclass(frozen=True)
class Side:
    """One side of the street: bands from the road's axis outwards."""

    sign: int  # -1 for the left side, 1 for the right
    curb: float  # distance from the axis to the end of the road
    bands: tuple[tuple[float, Label], ...]  # outer edge and label; the last reaches to infinity
    barrier: Barrier | None
    house_line: float  # distance of the facades from the axis
    houses: list[House]  # from near to far

    def middle(self, label: Label) -> float | None:
        """Return the position across the street of the middle of the first band with a label."""
        inner = self.curb
        for outer, band in self.bands:
            if band is label:
                return self.sign * (inner + min(outer, inner + 6.0)) / 2
            inner = outer
        return None

    @property
    def edge(self) -> float:
        """Distance from the axis to where the open ground begins."""
        return self.bands[-2][0]

    def skyline(self, ahead: np.ndarray) -> np.ndarray:
        """Return the height of the houses at some depths, 0 in gaps."""
        edges = [edge for house in self.houses for edge in (house.near, house.far)]
        heights = [0.0] + [height for house in self.houses for height in (house.facade.height, 0.0)]
        return np.float32(heights)[np.searchsorted(np.float32(edges), ahead)]


@dataclass(frozen=True)
class Thing:
    """An object on the ground: a vehicle, a person, a post, a tree."""

    across: float  # position of its middle across the street
    ahead: float  # depth of its middle

    @property
    def nearest(self) -> float:
        """Depth of its nearest point."""
        return self.ahead

    def footprint(self) -> tuple[float, float, float]:
        """Return half its width and length on the ground, and its height, for its shadow."""
        raise NotImplementedError

    def draw(self, canvas: Canvas) -> None:
        """Paint the object."""
        raise NotImplementedError


@dataclass(frozen=True)
class StreetPlan:
    """Everything in a street, before it is drawn."""

    sides: tuple[Side, Side]  # left and right
    things: list[Thing]
    end: float  # depth at which houses or trees close the view
