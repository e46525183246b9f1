"""Routing by the true domain, an upper bound for analysis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..core.reservoir_part import State
from ..core.route import Route
from ..errors import ReservoirError
from ..option_types import Count
from ..registry import register
from .base import Router


@register("router", "oracle")
class OracleRouter(Router):
    """Router by the true domain name, with one expert per domain. For analysis only.

    Its results show what perfect routing would gain, which separates routing errors from
    adaptation errors.

    Args:
        k_max: Largest number of experts: the source's and one per domain. Defaults to 16.
    """

    needs_style = False

    def __init__(self, k_max: Count = 16) -> None:
        super().__init__(k_max)
        self._domains: list[str] = []

    @property
    def k(self) -> int:
        """Return K, the number of domains seen so far, the source included."""
        return 1 + len(self._domains)

    def route(
        self, style: Tensor | None = None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Route by ``domain``; the style is ignored."""
        if domain is None:
            raise ReservoirError(
                "OracleRouter needs the domain name of every batch, and this stream has none: "
                "use the style router"
            )
        is_new = may_open and domain not in self._domains
        if is_new:
            if self.k == self.k_max:
                raise ReservoirError(
                    f"OracleRouter has no room for the domain {domain!r}: K_max = {self.k_max} "
                    "must be at least the number of domains + 1"
                )
            self._domains.append(domain)
        # An incomplete batch of an unseen domain goes to the source, since it may not open one.
        index = 1 + self._domains.index(domain) if domain in self._domains else 0
        weights = torch.zeros(self.k)
        weights[index] = 1
        return Route(index, weights, is_new)

    def state_dict(self) -> State:
        return {"shared": {}, "experts": [{"domain": name} for name in (None, *self._domains)]}

    def load_state_dict(self, state: State) -> None:
        self._domains = [entry["domain"] for entry in state["experts"][1:]]

    @classmethod
    def distance(cls, options: State, shared: State, one: State, other: State) -> float:
        return 0.0 if one["domain"] == other["domain"] else math.inf
