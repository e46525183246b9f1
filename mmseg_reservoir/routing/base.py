"""The interface of routers, which decide the expert of a batch and whether its style is new."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from ..core.reservoir_part import ReservoirPart, State
from ..core.route import Route
from ..errors import ReservoirError
from ..option_types import Count
from ..registry import checked
from ..style.calibration import Calibration

LARGEST = 2.0**40
"""In a style. The squares of larger numbers would soon be infinite in single precision."""


@checked
class Router(ReservoirPart):
    """Decides the route of every batch. Expert 0 is the source.

    It is made from options alone, so that mistakes in them show before anything is computed. It
    must be fitted to a calibration before it routes.

    Args:
        k_max: The largest number of experts.
    """

    needs_style = True
    """Whether it uses styles; if not, nothing is encoded and no calibration is needed."""

    calibration: Calibration | None = None
    """The calibration that it was fitted to."""

    def __init__(self, k_max: Count = 16) -> None:
        self.k_max = k_max

    def fit(self, calibration: Calibration) -> Router:
        """Fit to the styles of the source; return the router."""
        self.calibration = calibration
        return self

    def calibrate(self, calibration: Calibration) -> None:
        """Fit to a calibration and keep it, also where a subclass's :meth:`fit` does not."""
        self.fit(calibration)
        self.calibration = calibration

    @property
    @abstractmethod
    def k(self) -> int:
        """K, the number of experts that routes refer to."""

    @abstractmethod
    def route(
        self, style: Tensor | None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Route one batch.

        Args:
            style: Its style vector ``(d,)``.
            may_open: False if it must not open a domain (an incomplete last batch).
            domain: Its true domain, if available; for analysis only.
        """

    def fallback_route(self) -> Route:
        """Return the route of a batch without information, as of a covered lens; learn nothing.

        By default it goes to the source.
        """
        weights = torch.zeros(self.k)
        weights[0] = 1
        return Route(0, weights, is_new=False, fits=False)

    @classmethod
    def distance(cls, options: State, shared: State, one: State, other: State) -> float:
        """Return how different the domains of two experts are; up to 1 they count as one domain.

        By default no two domains are the same, so that no experts are merged into one.

        Args:
            options: The router's :meth:`merge_options`.
            shared: The shared state of the first reservoir.
            one: The entry of an expert in the router's state.
            other: The entry of another expert.
        """
        return math.inf


def check_finite(style: Tensor | None) -> Tensor:
    """Return the style; refuse a missing one, and one that would spoil all that learns from it."""
    if style is None:
        raise ReservoirError("this router looks at styles, but got none: give it a style encoder")
    if not (style.abs() <= LARGEST).all():  # which a NaN is not, either
        raise ReservoirError(
            "the style vector is not finite, or too large to be compared: the image holds NaN, "
            "infinite or absurd values"
        )
    return style
