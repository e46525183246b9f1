"""Routing: which expert a batch belongs to, and whether its style is new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import choose, register
from .calibration import Calibration
from .clustering import Clustering, InformationClustering
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
    """Decides the route of every batch. Expert 0 is the source.

    It is made from options alone, so that mistakes in them show before anything is computed, and
    begins to know styles when it is fitted to a calibration.

    Args:
        k_max: The largest number of experts.
    """

    needs_style = True
    """Whether it looks at styles; if not, nothing is encoded and no calibration is needed."""

    def __init__(self, k_max: int = 16) -> None:
        if k_max < 1:
            raise ReservoirError(f"the reservoir needs room for K_max >= 1 expert, got {k_max}")
        self.k_max = k_max

    def fit(self, calibration: Calibration) -> Router:
        """Learn from the styles of the source what is not new; returns itself."""
        return self

    @property
    @abstractmethod
    def k(self) -> int:
        """K, the number of experts that routes refer to."""

    @abstractmethod
    def route(
        self,
        style: Tensor | None,
        *,
        may_open: bool = True,
        domain: str | None = None,
    ) -> Route:
        """Route one batch.

        Args:
            style: Its style vector ``(d,)``.
            may_open: False if it must not found a new domain (an incomplete last batch).
            domain: Its true domain where known; for analysis only.
        """

    def blind(self) -> Route:
        """The route of a batch that tells nothing, as of a covered lens; nothing is learned.

        By default it goes to the source.
        """
        weights = torch.zeros(self.k)
        weights[0] = 1
        return Route(0, weights, is_new=False)

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""


@register("router", "style")
class StyleRouter(Router):
    """Routes by style (paper, Sec. 4.1).

    A style farther than ``tau`` from every centroid founds a new one (Eq. 7). Then the centroids
    move, and the style is remembered.

    Args:
        clustering: How the centroids move; None for the paper's.
        memory: The style memory R; None for the paper's.
        k_max: The largest number of centroids.
        quantile: q of ``tau``, the distance beyond which a style is new.
        assign: Whether the returned weights come from the centroids ``"before"`` they move, as in
            the published implementation, or ``"after"``, as in Algorithm 1.
        learn_from: What the centroids follow: the remembered styles ``"and_current"``, as in the
            published implementation, or ``"memory"``, to which the current style has been offered
            first, as in Algorithm 1.
        learn_incomplete: Learn from batches that may open no domain, too, as the published
            implementation does. The style of a smaller batch is unlike that of a complete one.
    """

    def __init__(
        self,
        clustering: Clustering | None = None,
        memory: StyleMemory | None = None,
        k_max: int = 16,
        quantile: float = 0.999,
        assign: Literal["before", "after"] = "before",
        learn_from: Literal["and_current", "memory"] = "and_current",
        learn_incomplete: bool = False,
    ) -> None:
        super().__init__(k_max)
        if not 0 < quantile <= 1:
            raise ReservoirError(f"the quantile q of tau must lie in (0, 1], got {quantile}")
        self.clustering = InformationClustering() if clustering is None else clustering
        self.memory = ReservoirSampling() if memory is None else memory
        self.quantile = quantile
        self.tau: float | None = None
        self._assign_after = choose(assign, {"before": False, "after": True}, "order of assign")
        sources = {"and_current": False, "memory": True}
        self._remember_first = choose(learn_from, sources, "learn_from")
        self.learn_incomplete = learn_incomplete

    def fit(self, calibration: Calibration) -> StyleRouter:
        """Take ``tau`` and the first centroid from the styles of the source."""
        self.tau = calibration.threshold(self.quantile, self.clustering.distance)
        self.clustering.start(calibration.centroid)
        self.memory.fill(calibration.styles)
        return self

    @property
    def k(self) -> int:
        """K, the number of centroids."""
        return len(self.clustering.centroids)

    def route(
        self,
        style: Tensor,
        *,
        may_open: bool = True,
        domain: str | None = None,
    ) -> Route:
        """Route one style vector and learn from it."""
        check_finite(style)
        # 320 numbers: the routing stays where the centroids are.
        style = style.to(self.clustering.source_centroid)
        nearest = self.clustering.distances(style[None]).min()
        is_new = bool(may_open and self.k < self.k_max and nearest > self.tau)
        if is_new:
            self.clustering.open(style)
        if not (may_open or self.learn_incomplete):
            weights = self.clustering.assign(style[None])[0]
            return Route(int(weights.argmax()), weights, is_new)
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


@register("router", "oracle")
class OracleRouter(Router):
    """Routes by the true domain name: one expert each, beside the source. For analysis only.

    It answers what perfect routing would gain, so that a loss can be put down to the routing or
    to the adaptation.

    Args:
        k_max: The largest number of experts: the source's and one per domain.
    """

    needs_style = False

    def __init__(self, k_max: int = 16) -> None:
        super().__init__(k_max)
        self._domains: list[str] = []

    @property
    def k(self) -> int:
        """K: the source and every domain seen so far."""
        return 1 + len(self._domains)

    def route(
        self,
        style: Tensor | None = None,
        *,
        may_open: bool = True,
        domain: str | None = None,
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


def check_finite(style: Tensor) -> None:
    """Refuse a style that would spoil whatever is learned from it."""
    if not torch.isfinite(style).all():
        raise ReservoirError(
            "the style vector is not finite: the image holds NaN or infinite values"
        )
