"""Online clustering: rules that move centroids with the styles."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.losses import information_loss
from ..core.reservoir_part import ReservoirPart, State, padded
from ..core.state import copied_to
from ..option_types import Positive
from ..registry import checked, find, register
from ..style.statistics import DistanceOption


@checked
class Clustering(ReservoirPart):
    """Centroids of style clusters, and the rule that moves them.

    :meth:`start` sets the first centroid, that of the source.

    Args:
        temperature: Divisor of the distances before the softmax: a number, or ``"sqrt_d"`` as in
            Eq. 8 and 12 of the paper. Defaults to 1, as in the published implementation.
        distance: Distance of styles and centroids, registered as ``"distance"``. Defaults to
            ``"euclidean"``.
    """

    def __init__(
        self,
        temperature: Positive | Literal["sqrt_d"] = 1.0,
        distance: DistanceOption = "euclidean",
    ) -> None:
        self.temperature = temperature
        self.distance = find("distance", distance)

    def start(self, centroid: Tensor) -> Clustering:
        """Start from the centroid of the source, ``(d,)``; return the clustering."""
        self.source_centroid = centroid.detach().clone()
        if self.temperature == "sqrt_d":
            self.temperature = centroid.numel() ** 0.5
        self._scale = float(self.temperature)
        self._begin()
        return self

    @abstractmethod
    def _begin(self) -> None:
        """Create the first centroid."""

    @property
    @abstractmethod
    def centroids(self) -> Tensor:
        """Return all centroids, ``(K, d)``."""

    @abstractmethod
    def open(self, style: Tensor) -> None:
        """Add a centroid at a style."""

    @abstractmethod
    def move(self, styles: Tensor, current: Tensor) -> None:
        """Move the centroids by the remembered styles ``(n, d)``, or by the current one only."""

    @classmethod
    @abstractmethod
    def centroid(cls, shared: State, entry: State) -> Tensor:
        """Return the centroid of an expert from its entry in a saved state, ``(d,)``."""

    @torch.no_grad()
    def distances(self, styles: Tensor) -> Tensor:
        """Return the distances ``(n, K)`` of styles ``(n, d)`` to the centroids."""
        distances: Tensor = self.distance(styles, self.centroids)
        return distances

    def assign(self, styles: Tensor) -> Tensor:
        """Return soft assignments Q of styles to the centroids, ``(n, K)`` (Eq. 8 and 12)."""
        return (-self.distances(styles) / self._scale).softmax(dim=1)


class GradientClustering(Clustering):
    """Centroids that descend a loss of the soft assignments, by AdamW.

    They are stored as offsets from an origin. Weight decay pulls the offsets to zero.

    Args:
        lr: Learning rate. Defaults to 1e-4.
        weight_decay: Weight decay of AdamW. Defaults to 0.01.
        decay_towards: Origin of the offsets: the ``"source"`` centroid, as published, or
            ``"zero"``. Defaults to ``"source"``.
        **options: See :class:`Clustering`.
    """

    def __init__(
        self,
        lr: float = 1e-4,
        weight_decay: float = 0.01,
        decay_towards: Literal["source", "zero"] = "source",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.lr = lr
        self.weight_decay = weight_decay
        self._origin_share = 1.0 if decay_towards == "source" else 0.0

    def _begin(self) -> None:
        self._origin = self._origin_share * self.source_centroid
        self._restart((self.source_centroid - self._origin)[None])

    @property
    def centroids(self) -> Tensor:
        return self._origin + self._offsets

    def open(self, style: Tensor) -> None:
        self._restart(torch.cat([self._offsets.detach(), (style - self._origin)[None]]))

    @torch.enable_grad()
    def move(self, styles: Tensor, current: Tensor) -> None:
        self._optimizer.zero_grad()
        self.loss(-self.distance(styles, self.centroids) / self._scale).backward()
        self._optimizer.step()

    @abstractmethod
    def loss(self, logits: Tensor) -> Tensor:
        """Return the loss of ``(n, K)`` logits of the soft assignments."""

    def _restart(self, offsets: Tensor) -> None:
        # As published, a new centroid restarts the optimizer: its moments have another shape.
        self._offsets = offsets.clone().requires_grad_(True)
        self._optimizer = torch.optim.AdamW(
            [self._offsets], lr=self.lr, weight_decay=self.weight_decay
        )

    def state_dict(self) -> State:
        moments = self._optimizer.state[self._offsets]
        return {
            "shared": {"origin": self._origin.clone()},
            "experts": [{"offset": offset} for offset in self._offsets.detach().clone()],
            "stream": {"optimizer": {name: value.clone() for name, value in moments.items()}},
        }

    def load_state_dict(self, state: State) -> None:
        state = copied_to(state, self.source_centroid.device)
        self._origin = state["shared"]["origin"]
        self._restart(torch.stack([entry["offset"] for entry in state["experts"]]))
        # Removing or merging a centroid restarts the optimizer, as adding one does.
        stream = state["stream"] or {"optimizer": {}}
        self._optimizer.state[self._offsets] = stream["optimizer"]

    @classmethod
    def centroid(cls, shared: State, entry: State) -> Tensor:
        centroid: Tensor = shared["origin"] + entry["offset"]
        return centroid

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        return {"offset": torch.lerp(one["offset"], other["offset"], weight)}


@register("clustering", "information")
class InformationClustering(GradientClustering):
    """The paper's rule: maximize the mutual information of styles and clusters (Eq. 9 and 10)."""

    def loss(self, logits: Tensor) -> Tensor:
        return information_loss(logits)


@register("clustering", "sinkhorn")
class SinkhornClustering(GradientClustering):
    """Sinkhorn-Knopp: learn from balanced assignments of the remembered styles (SwAV, Caron 2020).

    The targets give every cluster the same weight, as near to the predicted assignments as
    possible. The loss is the cross-entropy of the predicted assignments with the targets.

    Args:
        iterations: Number of alternating normalizations. Defaults to 3, as in SwAV.
        **options: See :class:`GradientClustering`.
    """

    def __init__(self, iterations: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.iterations = iterations

    def loss(self, logits: Tensor) -> Tensor:
        log_targets = logits.detach()
        for _ in range(self.iterations):
            log_targets = log_targets.log_softmax(dim=0)  # equal shares of the clusters
            log_targets = log_targets.log_softmax(dim=1)  # one unit per style
        return -(log_targets.exp() * logits.log_softmax(dim=1)).sum(dim=1).mean()


@register("clustering", "kmeans")
class KMeansClustering(Clustering):
    """Online k-means: a centroid is the mean of all styles that it was nearest to.

    The initial source centroid counts as one style.
    """

    def _begin(self) -> None:
        self._centroids = self.source_centroid[None].clone()
        self._counts = torch.ones(1)

    @property
    def centroids(self) -> Tensor:
        return self._centroids

    def open(self, style: Tensor) -> None:
        self._centroids = torch.cat([self._centroids, style[None]])
        self._counts = torch.cat([self._counts, torch.zeros(1)])

    def move(self, styles: Tensor, current: Tensor) -> None:
        nearest = int(self.distances(current[None]).argmin())
        self._counts[nearest] += 1
        self._centroids[nearest] += (current - self._centroids[nearest]) / self._counts[nearest]

    def state_dict(self) -> State:
        pairs = zip(self._centroids.clone(), self._counts.tolist(), strict=True)
        return {"shared": {}, "experts": [{"centroid": c, "count": n} for c, n in pairs]}

    def load_state_dict(self, state: State) -> None:
        experts = state["experts"]
        self._centroids = torch.stack([e["centroid"].to(self._centroids) for e in experts])
        self._counts = torch.tensor([e["count"] for e in experts])

    @classmethod
    def centroid(cls, shared: State, entry: State) -> Tensor:
        centroid: Tensor = entry["centroid"]
        return centroid

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        centroid = torch.lerp(one["centroid"], other["centroid"], weight)
        return {"centroid": centroid, "count": one["count"] + other["count"]}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        return {"counts": [entry["count"] for entry in state["experts"]]}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        before = padded(progress["counts"], len(state["experts"]), 0)
        pairs = zip(state["experts"], before, strict=True)
        return {**state, "experts": [{**e, "count": e["count"] - n} for e, n in pairs]}
