"""Routing: which expert a batch belongs to, and whether its style is new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import choose
from .clustering import Clustering
from .memory import ReservoirSampling, StyleMemory
from .state import copied_to


@dataclass(frozen=True)
class Route:
    """Where a batch goes.

    Args:
        index: The expert that adapts.
        weights: The share of every expert in the prediction, ``(K,)``, sums to one.
        is_new: Whether expert ``index`` has to be created first.
    """

    index: int
    weights: Tensor
    is_new: bool


class Router(ABC):
    """Decides the route of every batch. Expert 0 is the source."""

    def __init__(self, k_max: int) -> None:
        if k_max < 1:
            raise ReservoirError(f"the reservoir needs room for K_max >= 1 expert, got {k_max}")
        self.k_max = k_max

    @property
    @abstractmethod
    def k(self) -> int:
        """K, the number of experts that routes refer to."""

    @abstractmethod
    def route(self, style: Tensor | None, *, may_open: bool, domain: str | None) -> Route:
        """Route one batch.

        Args:
            style: Its style vector ``(d,)``.
            may_open: False if it must not found a new domain (an incomplete last batch).
            domain: Its true domain where known; for analysis only.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""


class StyleRouter(Router):
    """Routes by style (paper, Sec. 4.1).

    A style farther than ``tau`` from every centroid founds a new one (Eq. 7). Then the centroids
    move, and the style is remembered.

    Args:
        clustering: The centroids, and how they move.
        tau: Distance beyond which a style is new.
        k_max: The largest number of centroids.
        memory: The style memory R.
        assign: Whether the returned weights come from the centroids ``"before"`` they move, as in
            the published implementation, or ``"after"``, as in Algorithm 1.
        learn_from: What the centroids follow: the remembered styles ``"and_current"``, as in the
            published implementation, or ``"memory"``, to which the current style has been offered
            first, as in Algorithm 1.
    """

    def __init__(
        self,
        clustering: Clustering,
        tau: float,
        k_max: int = 16,
        memory: StyleMemory | None = None,
        assign: str = "before",
        learn_from: str = "and_current",
    ) -> None:
        super().__init__(k_max)
        self.clustering = clustering
        self.tau = float(tau)
        self.memory = ReservoirSampling() if memory is None else memory
        self._assign_after = choose(assign, {"before": False, "after": True}, "order of assign")
        sources = {"and_current": False, "memory": True}
        self._remember_first = choose(learn_from, sources, "learn_from")

    @property
    def k(self) -> int:
        """K, the number of centroids."""
        return len(self.clustering.centroids)

    def route(self, style: Tensor, *, may_open: bool = True, domain: str | None = None) -> Route:
        """Route one style vector and learn from it."""
        if not torch.isfinite(style).all():
            raise ReservoirError(
                "the style vector is not finite: the image holds NaN or infinite values"
            )
        # 320 numbers: the routing stays where the centroids are.
        style = style.to(self.clustering.source_centroid)
        nearest = self.clustering.distances(style[None]).min()
        is_new = bool(may_open and self.k < self.k_max and nearest > self.tau)
        if is_new:
            self.clustering.open(style)
        styles = self.memory.with_current(style)
        assignments = self.clustering.assign(styles)
        weights = assignments[-1]
        self.memory.add(style, assignments)
        if self._remember_first and self.memory.styles is not None:
            styles = self.memory.styles
        self.clustering.move(styles, style)
        if self._assign_after:
            weights = self.clustering.assign(style[None])[0]
        return Route(int(weights.argmax()), weights, is_new)

    def state_dict(self) -> dict[str, Any]:
        """Centroids, style memory and threshold."""
        return {
            "clustering": self.clustering.state_dict(),
            "tau": self.tau,
            "memory": self.memory.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; threshold and source centroid come from it, too."""
        self.clustering.load_state_dict(state["clustering"])
        if self.k > self.k_max:
            raise ReservoirError(f"the saved router has {self.k} centroids, K_max is {self.k_max}")
        self.tau = state["tau"]
        device = self.clustering.source_centroid.device
        self.memory.load_state_dict(copied_to(state["memory"], device))


class OracleRouter(Router):
    """Routes by the true domain name: one expert each, beside the source. For analysis only.

    It answers what perfect routing would gain, so that a loss can be put down to the routing or
    to the adaptation.
    """

    def __init__(self, k_max: int = 16) -> None:
        super().__init__(k_max)
        self._domains: list[str] = []

    @property
    def k(self) -> int:
        """K: the source and every domain seen so far."""
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
        known = domain in self._domains
        is_new = may_open and not known
        if is_new:
            if self.k == self.k_max:
                raise ReservoirError(
                    f"OracleRouter has no room for the domain {domain!r}: K_max = {self.k_max} "
                    "must be at least the number of domains + 1"
                )
            self._domains.append(domain)
        # A batch that may not open its domain is the source's until one comes that may.
        index = 1 + self._domains.index(domain) if known or is_new else 0
        weights = torch.zeros(self.k)
        weights[index] = 1
        return Route(index, weights, is_new)

    def state_dict(self) -> dict[str, Any]:
        """The domains seen, in order."""
        return {"domains": list(self._domains)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._domains = list(state["domains"])
