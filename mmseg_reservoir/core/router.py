"""Routing: which expert a batch belongs to, and whether its style is new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import choose
from .losses import information_loss
from .memory import StyleMemory


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

    needs_style: ClassVar[bool] = True

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
    """Online clustering of styles (paper, Sec. 3.1, Eq. 5-10).

    A style farther than ``tau`` from every centroid founds a new one. All centroids then take one
    AdamW step on the mutual-information loss of the remembered styles. Centroids are stored as
    offsets from the source centroid, so AdamW's weight decay pulls towards the source.

    Args:
        source_centroid: The first centroid, ``(d,)``.
        tau: Distance beyond which a style is new.
        k_max: The largest number of centroids.
        memory: The style memory R.
        temperature: Distances are divided by it before the softmax: a number, or ``"sqrt_d"`` as
            in the paper's Eq. 6 and 9. The published implementation uses 1.
        assign: Whether the returned weights come from the centroids ``"before"`` their step, as
            in the published implementation, or ``"after"`` it, as in Algorithm 1.
        lr: Learning rate of the centroids.
        weight_decay: AdamW's weight decay on the offsets.
    """

    def __init__(
        self,
        source_centroid: Tensor,
        tau: float,
        k_max: int = 16,
        memory: StyleMemory | None = None,
        temperature: float | str = 1.0,
        assign: str = "before",
        lr: float = 1e-4,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(k_max)
        if temperature == "sqrt_d":
            temperature = source_centroid.numel() ** 0.5
        if isinstance(temperature, str) or not temperature > 0:
            raise ReservoirError(
                f"temperature must be a number above 0 or 'sqrt_d', got {temperature!r}"
            )
        self.tau = float(tau)
        self.memory = StyleMemory() if memory is None else memory
        self.temperature = float(temperature)
        self._assign_after = choose(assign, {"before": False, "after": True}, "order of assign")
        self.lr = lr
        self.weight_decay = weight_decay
        self._origin = source_centroid.detach().clone()
        self._restart(torch.zeros_like(self._origin)[None])

    @property
    def k(self) -> int:
        """K, the number of centroids."""
        return len(self._offsets)

    @property
    def centroids(self) -> Tensor:
        """All centroids, ``(K, d)``."""
        return self._origin + self._offsets.detach()

    def route(self, style: Tensor, *, may_open: bool = True, domain: str | None = None) -> Route:
        """Route one style vector and learn from it."""
        if not torch.isfinite(style).all():
            raise ReservoirError(
                "the style vector is not finite: the image holds NaN or infinite values"
            )
        style = style.to(self._origin)  # 320 numbers: the routing stays where the centroids are
        nearest = self.distances(style[None]).min()
        is_new = bool(may_open and self.k < self.k_max and nearest > self.tau)
        if is_new:
            self._restart(torch.cat([self._offsets.detach(), (style - self._origin)[None]]))
        weights = self._step(self.memory.with_current(style))
        if self._assign_after:
            weights = self._soft_assignment(style[None])[0]
        self.memory.add(style)
        return Route(int(weights.argmax()), weights, is_new)

    @torch.no_grad()
    def distances(self, styles: Tensor) -> Tensor:
        """Euclidean distances of styles ``(n, d)`` to the centroids: ``(n, K)``."""
        return self._logits(styles) * -self.temperature

    @torch.no_grad()
    def _soft_assignment(self, styles: Tensor) -> Tensor:
        return self._logits(styles).softmax(dim=1)

    def _logits(self, styles: Tensor) -> Tensor:
        # The matrix-product form of cdist loses digits for near points, and few points are near.
        mode = "donot_use_mm_for_euclid_dist"
        centroids = self._origin + self._offsets
        return -torch.cdist(styles, centroids, compute_mode=mode) / self.temperature

    @torch.enable_grad()
    def _step(self, styles: Tensor) -> Tensor:
        """One AdamW step on L_MI (Eq. 7-8); returns the weights of the last style, before it."""
        self._optimizer.zero_grad()
        logits = self._logits(styles)
        information_loss(logits).backward()
        self._optimizer.step()
        return logits[-1].detach().softmax(dim=0)

    def _restart(self, offsets: Tensor) -> None:
        # As published, a new centroid restarts the optimizer: its moments have another shape.
        self._offsets = offsets.requires_grad_(True)
        self._optimizer = torch.optim.AdamW(
            [self._offsets], lr=self.lr, weight_decay=self.weight_decay
        )

    def state_dict(self) -> dict[str, Any]:
        """Centroids, their optimizer and the style memory."""
        moments = self._optimizer.state[self._offsets]
        return {
            "origin": self._origin.clone(),
            "offsets": self._offsets.detach().clone(),
            "optimizer": {name: value.clone() for name, value in moments.items()},
            "tau": self.tau,
            "memory": self.memory.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; threshold and source centroid come from it, too."""
        if len(state["offsets"]) > self.k_max:
            raise ReservoirError(
                f"the saved router has {len(state['offsets'])} centroids, K_max is {self.k_max}"
            )
        self._origin = state["origin"].clone()
        self._restart(state["offsets"].clone())
        self._optimizer.state[self._offsets] = {
            name: value.clone() for name, value in state["optimizer"].items()
        }
        self.tau = state["tau"]
        self.memory.load_state_dict(state["memory"])


class OracleRouter(Router):
    """Routes by the true domain name: one expert each, beside the source. For analysis only.

    It answers what perfect routing would gain, so that a loss can be put down to the routing or
    to the adaptation.
    """

    needs_style: ClassVar[bool] = False

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
        is_new = domain not in self._domains
        if is_new:
            if self.k == self.k_max:
                raise ReservoirError(
                    f"OracleRouter has no room for the domain {domain!r}: K_max = {self.k_max} "
                    "must be at least the number of domains + 1"
                )
            self._domains.append(domain)
        index = 1 + self._domains.index(domain)
        weights = torch.zeros(self.k)
        weights[index] = 1
        return Route(index, weights, is_new)

    def state_dict(self) -> dict[str, Any]:
        """The domains seen, in order."""
        return {"domains": list(self._domains)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._domains = list(state["domains"])
