"""How centroids follow the styles: strategies of online clustering."""

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
    """Centroids, of which the first is the source's, and the rule that moves them.

    Before :meth:`start` it has no centroid.

    Args:
        temperature: Distances are divided by it before the softmax: a number, or ``"sqrt_d"`` as
            in Eq. 8 and 12 of the paper. The published implementation uses 1.
        distance: Of styles and centroids; registered as ``"distance"``.
    """

    def __init__(
        self,
        temperature: Positive | Literal["sqrt_d"] = 1.0,
        distance: DistanceOption = "euclidean",
    ) -> None:
        self.temperature = temperature
        self.distance = find("distance", distance)

    def start(self, centroid: Tensor) -> Clustering:
        """Begin with the centroid of the source, ``(d,)``."""
        self.source_centroid = centroid.detach().clone()
        if self.temperature == "sqrt_d":
            self.temperature = centroid.numel() ** 0.5
        self._scale = float(self.temperature)
        self._begin()
        return self

    @abstractmethod
    def _begin(self) -> None:
        """Place the first centroid."""

    @property
    @abstractmethod
    def centroids(self) -> Tensor:
        """All centroids, ``(K, d)``."""

    @abstractmethod
    def open(self, style: Tensor) -> None:
        """Place a new centroid at a style."""

    @abstractmethod
    def move(self, styles: Tensor, current: Tensor) -> None:
        """Let the centroids follow the remembered styles ``(n, d)``, or only the current one."""

    @classmethod
    @abstractmethod
    def centroid(cls, shared: State, entry: State) -> Tensor:
        """Return the centroid of an expert from its entry in a saved state, ``(d,)``."""

    @torch.no_grad()
    def distances(self, styles: Tensor) -> Tensor:
        """Distances of styles ``(n, d)`` to the centroids: ``(n, K)``."""
        distances: Tensor = self.distance(styles, self.centroids)
        return distances

    def assign(self, styles: Tensor) -> Tensor:
        """Soft assignments Q of styles to the centroids, ``(n, K)`` (Eq. 8 and 12)."""
        return (-self.distances(styles) / self._scale).softmax(dim=1)


class GradientClustering(Clustering):
    """Centroids that descend a loss of the soft assignments, by AdamW.

    They are stored as offsets, and AdamW's weight decay pulls these to zero.

    Args:
        lr: Learning rate.
        weight_decay: AdamW's.
        decay_towards: What an offset is an offset from: the ``"source"`` centroid, as published,
            or ``"zero"``, if AdamW is applied to the centroids themselves.
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
        """What to descend, given ``(n, K)`` logits of the soft assignments."""

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
        # As a new centroid does, one that was removed or merged restarts the optimizer.
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
    """Sinkhorn-Knopp: follow balanced assignments of the remembered styles (SwAV, Caron 2020).

    The targets are the assignments nearest to the predicted ones that give every cluster the same
    weight. The loss is the cross-entropy of the predicted assignments with them.

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
    """Online k-means: the nearest centroid becomes the mean of all styles it has won.

    The centroid of the source counts as one style.
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
