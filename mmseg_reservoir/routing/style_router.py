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
    """Router by style (paper, Sec. 4.1).

    A style farther than ``tau`` from every centroid opens a new one (Eq. 7). The style is then
    offered to the memory, and the centroids move.

    Args:
        clustering: Rule that moves the centroids. Defaults to None, the paper's.
        memory: Style memory R. Defaults to None, the paper's.
        k_max: Largest number of centroids. Defaults to 16.
        quantile: Quantile q of source distances that gives ``tau``. Defaults to 0.999.
        assign: Centroids that give the returned weights: those ``"before"`` the move, as in the
            published implementation, or ``"after"``, as in Algorithm 1. Defaults to ``"before"``.
        learn_from: Styles that move the centroids: the remembered ones ``"and_current"``, as in
            the published implementation, or ``"memory"``, to which the current style was offered
            first, as in Algorithm 1. Defaults to ``"and_current"``.
        learn_incomplete: Whether to learn from incomplete batches, too, as the published
            implementation does. Their styles differ from those of complete ones. Defaults to
            False.
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
        """Set ``tau`` and the first centroid from the styles of the source."""
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
        """Return the route of a style vector, and learn from it."""
        # A style is small, so routing runs on the device of the centroids.
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
        """Restore :meth:`state_dict`, including threshold and source centroid."""
        shared = state["shared"]
        self.clustering.load_state_dict({**state, "shared": shared["clustering"]})
        if self.k > self.k_max:
            raise ReservoirError(f"the saved router has {self.k} centroids, K_max is {self.k_max}")
        self.tau = shared["tau"]
        device = self.clustering.source_centroid.device
        self.memory.load_state_dict(copied_to(shared["memory"], device))

    # The entry of an expert is the centroid of its domain. The style memory is shared, since its
    # styles belong to no expert.

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
        """Return the distance of two centroids divided by ``tau`` (Eq. 7)."""
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
