"""Parameters that come as low-rank factors: ``W + s B A``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..options import choose
from .base import ParamSpace

_A, _B = "lora_A", "lora_B"


class LowRankSpace(ParamSpace):
    """Factors A ``(r, in, ...)`` and B ``(out, r, ...)`` that act as their product.

    Args:
        model: The model; already on its device.
        selected: The factors by name; the names of a pair differ in ``lora_A`` and ``lora_B``.
        average: How experts are ensembled. ``"factors"`` averages A and B each by itself, the
            paper's Eq. 14 taken literally. ``"product"`` averages what they do, B A.
    """

    def __init__(
        self, model: nn.Module, selected: Mapping[str, nn.Parameter], average: str = "factors"
    ) -> None:
        self.by_product = choose(
            average, {"factors": False, "product": True}, "average of low-rank factors"
        )
        names = list(selected)
        pairs = [(n, n.replace(_A, _B)) for n in names if _A in n]
        if not pairs or sorted(sum(pairs, ())) != sorted(names):
            raise ReservoirError(
                f"low-rank factors must come in pairs named {_A} and {_B}, got {names}"
            )
        super().__init__(model, selected)
        self._pairs = [(names.index(a), names.index(b)) for a, b in pairs]

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        """Within this context the model has other values; afterwards those it had before."""
        seen = [parameter.data for parameter in self._parameters]
        self._attach(self.split(self.values.detach()))
        try:
            with super().at(vector):
                yield
        finally:
            self._attach(seen)

    @contextmanager
    def ensembled(self, experts: Tensor, weights: Tensor) -> Iterator[None]:
        """Within this context the model is the experts' ensemble."""
        if not self.by_product:
            with super().ensembled(experts, weights):
                yield
            return
        # sum_k q_k B_k A_k is one product of rank K r: the A's on top of each other, the B's
        # side by side. No dense matrix is made, and the frozen weights are not touched.
        split = [self.split(expert) for expert in experts]
        stacked = self.split(weights.to(experts) @ experts)  # what is no factor is just averaged
        for a, b in self._pairs:
            stacked[a] = torch.cat([expert[a] for expert in split], dim=0)
            shares = zip(weights.to(experts), split, strict=True)
            stacked[b] = torch.cat([q * expert[b] for q, expert in shares], dim=1)
        self._attach(stacked)
        try:
            yield
        finally:
            self._attach(self.split(self.values.detach()))

    def _attach(self, tensors: list[Tensor]) -> None:
        for parameter, tensor in zip(self._parameters, tensors, strict=True):
            parameter.data = tensor
        self.changed()
