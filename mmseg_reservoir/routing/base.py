"""Base class of routers, which choose the expert of a batch and detect new styles."""

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
"""Limit of a style's values, since squares of larger ones may overflow single precision."""


@checked
class Router(ReservoirPart):
    """Base class of routers, which return a route for every batch. Expert 0 is the source.

    The constructor only takes options, so invalid ones fail early. :meth:`fit` then learns the
    styles of the source.

    Args:
        k_max: Largest number of experts. Defaults to 16.
    """

    needs_style = True
    """Whether routes depend on styles; if not, no encoder and no calibration are needed."""

    calibration: Calibration | None = None
    """The calibration that the router was fitted to; None before."""

    def __init__(self, k_max: Count = 16) -> None:
        self.k_max = k_max

    def fit(self, calibration: Calibration) -> Router:
        """Fit the router to the styles of the source, and return it."""
        self.calibration = calibration
        return self

    def calibrate(self, calibration: Calibration) -> None:
        """Fit to a calibration and store it, even if a subclass's :meth:`fit` does not."""
        self.fit(calibration)
        self.calibration = calibration

    @property
    @abstractmethod
    def k(self) -> int:
        """Return K, the number of experts in a route."""

    @abstractmethod
    def route(
        self, style: Tensor | None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Return the route of one batch.

        Args:
            style: Style vector of the batch, ``(d,)``; None if ``needs_style`` is False.
            may_open: False forbids a new domain, as for an incomplete last batch. Defaults to True.
            domain: True domain, for analysis only. Defaults to None, unknown.
        """

    def fallback_route(self) -> Route:
        """Return a route for a batch without a usable style, as of a covered lens; learn nothing.

        By default this is the source.
        """
        weights = torch.zeros(self.k)
        weights[0] = 1
        return Route(0, weights, is_new=False, fits=False)

    @classmethod
    def distance(cls, options: State, shared: State, one: State, other: State) -> float:
        """Return the distance of two experts' domains; up to 1 they count as one domain.

        By default it is infinite, so all domains stay separate.

        Args:
            options: The router's :meth:`merge_options`.
            shared: Shared state of the first expert's router.
            one: Entry of the first expert in the router's state.
            other: Entry of the other expert.
        """
        return math.inf


def check_finite(style: Tensor | None) -> Tensor:
    """Return the style; raise an error if it is missing, not finite or too large."""
    if style is None:
        raise ReservoirError("this router looks at styles, but got none: give it a style encoder")
    if not (style.abs() <= LARGEST).all():  # a NaN fails this comparison, too
        raise ReservoirError(
            "the style vector is not finite, or too large to be compared: the image holds NaN, "
            "infinite or absurd values"
        )
    return style
