"""Routing by the distance of styles to centroids, as in the paper."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..core.reservoir_part import State, part_class
from ..core.route import Route
from ..core.state import copied_to
from ..errors import ReservoirError
from ..option_types import Count, PositiveFraction
from ..registry import find, register, table
from ..style.calibration import Calibration
from .base import Router, check_finite
from .clustering import Clustering, InformationClustering
from .style_memory import ReservoirSampling, StyleMemory, join_memories


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
        k_max: Count = 16,
        quantile: PositiveFraction = 0.999,
        assign: Literal["before", "after"] = "before",
        learn_from: Literal["and_current", "memory"] = "and_current",
        learn_incomplete: bool = False,
    ) -> None:
        super().__init__(k_max)
        self.clustering = InformationClustering() if clustering is None else clustering
        self.memory = ReservoirSampling() if memory is None else memory
        self.quantile = quantile
        self.tau: float | None = None
        self._assign_after = assign == "after"
        self._remember_first = learn_from == "memory"
        self.learn_incomplete = learn_incomplete

    def fit(self, calibration: Calibration) -> StyleRouter:
        """Take ``tau`` and the first centroid from the styles of the source."""
        super().fit(calibration)
        self.tau = calibration.threshold(self.quantile, self.clustering.distance)
        self.clustering.start(calibration.centroid)
        self.memory.fill(calibration.styles)
        return self

    @property
    def k(self) -> int:
        return len(self.clustering.centroids)

    def route(
        self, style: Tensor | None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Route one style vector and learn from it."""
        # 320 numbers: the routing stays where the centroids are.
        style = check_finite(style).to(self.clustering.source_centroid)
        assert self.tau is not None, "fit() or load_state_dict() comes first"
        is_far = bool(self.clustering.distances(style[None]).min() > self.tau)  # Eq. 7
        is_new = is_far and may_open and self.k < self.k_max
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

    def state_dict(self) -> State:
        state = self.clustering.state_dict()
        shared = {
            "clustering": state["shared"],
            "tau": self.tau,
            "memory": self.memory.state_dict(),
        }
        return {**state, "shared": shared}

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`; threshold and source centroid come from it, too."""
        shared = state["shared"]
        self.clustering.load_state_dict({**state, "shared": shared["clustering"]})
        if self.k > self.k_max:
            raise ReservoirError(f"the saved router has {self.k} centroids, K_max is {self.k_max}")
        self.tau = shared["tau"]
        device = self.clustering.source_centroid.device
        self.memory.load_state_dict(copied_to(shared["memory"], device))

    # What an expert has in the state is the centroid of its domain. The style memory is shared:
    # styles have no owner there.

    def merge_options(self) -> State:
        distance = self.clustering.distance
        names = {part: name for name, part in table("distance").items()}
        return {
            "clustering": type(self.clustering).__name__,
            "distance": names.get(distance, getattr(distance, "__name__", "custom")),
            "memory": type(self.memory).__name__,
            "capacity": self.memory.capacity,
            "tau": self.tau,
        }

    @classmethod
    def distance(cls, options: State, shared: State, one: State, other: State) -> float:
        """Return the distance of two centroids over ``tau`` (Eq. 7)."""
        clustering = _clustering(options)
        distance = find("distance", options["distance"])
        a, b = (clustering.centroid(shared["clustering"], entry)[None] for entry in (one, other))
        # Not every distance is symmetric.
        largest = max(float(distance(a, b)), float(distance(b, a)))
        return largest / float(options["tau"])

    @classmethod
    def merge_shared(cls, options: State, one: State, other: State) -> State:
        memory = join_memories(one["memory"], other["memory"], options["capacity"])
        return {**one, "memory": memory}

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        return _clustering(options).merge_expert({}, one, other, weight)

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        centroids = _clustering(options).progress({}, state)
        return {"seen": state["shared"]["memory"]["seen"], "centroids": centroids}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        shared = state["shared"]
        # A memory may have reset its count.
        seen = max(0, shared["memory"]["seen"] - progress["seen"])
        state = _clustering(options).delta({}, state, progress["centroids"])
        return {**state, "shared": {**shared, "memory": {**shared["memory"], "seen": seen}}}


def _clustering(options: State) -> type[Clustering]:
    kind = part_class(options["clustering"])
    if kind is None or not issubclass(kind, Clustering):
        raise ReservoirError(
            f"the clustering {options['clustering']} is not loaded: import the file that defines it"
        )
    return kind
