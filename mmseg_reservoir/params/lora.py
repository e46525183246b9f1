"""LoRA by peft: low-rank factors beside frozen weights, as a parameter space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..registry import checked, register
from .base import ParamSpace, modules_below

SEGFORMER_TARGETS = ("attn.attn", "ffn.layers.0", "ffn.layers.4")
"""mmseg's MiT: the attention (packed q, k, v and its output) and the 1x1 convs of MixFFN."""

_A, _B = "lora_A", "lora_B"


@register("params", "lora")
def lora_space(
    model: nn.Module,
    under: str = "",
    targets: Sequence[str] = SEGFORMER_TARGETS,
    rank: int = 4,
    alpha: float = 8.0,
    average: Literal["factors", "product"] = "factors",
    seed: int = 0,
) -> LowRankSpace:
    """Inject LoRA factors into a model, and return their space; only the factors adapt.

    B starts at 0, so the predictions do not change.

    Args:
        model: The model, with its weights loaded and on its device.
        under: Name of the module to search. Defaults to the whole model.
        targets: Endings of the names of modules to adapt: ``nn.Linear``, ``nn.Conv2d`` (not
            depthwise) or ``nn.MultiheadAttention``. Defaults to those of a SegFormer.
        rank: Rank of the product. Defaults to 4.
        alpha: Numerator of the product's scale, ``alpha / rank``. Defaults to 8.
        average: Average of experts, see :class:`LowRankSpace`. Defaults to ``"factors"``.
        seed: Seed of the initial A. Defaults to 0.
    """
    # peft takes seconds to import, and most runs do not need it.
    from peft import LoraConfig, inject_adapter_in_model

    from .lora_attention import LoraAttention

    if any("lora_A" in name for name, _ in model.named_parameters()):
        raise ReservoirError("the model has LoRA factors already: build it again")
    modules = modules_below(model, under)
    names = [n for n in modules if any(f".{n}".endswith(f".{target}") for target in targets)]
    for target in targets:
        if not any(f".{name}".endswith(f".{target}") for name in names):
            leaves = (nn.Linear, nn.MultiheadAttention)
            candidates = [name for name, module in modules.items() if isinstance(module, leaves)]
            raise ReservoirError(
                f"params.targets: no module below {under or 'the model'!r} has a name that ends in "
                f"{target!r}; {type(model).__name__} has e.g. {', '.join(candidates[:8])}"
            )
    for name in names:
        module = modules[name]
        if isinstance(module, nn.Conv2d) and module.groups > 1:
            raise ReservoirError(f"params.targets: {name} is a grouped convolution; leave it out")
    device = next(model.parameters()).device
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type] # "int" in peft, which divides it by r
        target_modules=names,
        lora_dropout=0.0,
        bias="none",
    )
    config._register_custom_module({nn.MultiheadAttention: LoraAttention})
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)
    model.eval()  # peft's layers start in training mode
    selected = {n: p for n, p in model.named_parameters() if "lora_A." in n or "lora_B." in n}
    return LowRankSpace(model, selected, average, scaling=alpha / rank)


@checked
class LowRankSpace(ParamSpace):
    """Factors A ``(r, in, ...)`` and B ``(out, r, ...)`` that act as their product B A.

    Args:
        model: The model, on its device.
        selected: Factors by name; the names of a pair differ in ``lora_A`` and ``lora_B``.
        average: Average of experts: ``"factors"`` averages A and B separately (the paper's Eq. 14
            taken literally), ``"product"`` averages B A. Defaults to ``"factors"``.
        scaling: Factor of the products in the model. Defaults to 1.
    """

    def __init__(
        self,
        model: nn.Module,
        selected: Mapping[str, nn.Parameter],
        average: Literal["factors", "product"] = "factors",
        scaling: float = 1.0,
    ) -> None:
        self.scaling = scaling
        self.by_product = average == "product"
        names = list(selected)
        pairs = factor_pairs(names)
        if not pairs or sorted(sum(pairs, ())) != sorted(names):
            raise ReservoirError(
                f"low-rank factors must come in pairs named {_A} and {_B}, got {names}"
            )
        super().__init__(model, selected)
        self._pairs = [(names.index(a), names.index(b)) for a, b in pairs]

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        seen = [parameter.data for parameter in self._parameters]
        self._attach(self.split(self.values.detach()))
        try:
            with super().at(vector):
                yield
        finally:
            self._attach(seen)

    @contextmanager
    def ensembled(self, experts: Tensor, weights: Tensor) -> Iterator[None]:
        if not self.by_product:
            with super().ensembled(experts, weights):
                yield
            return
        # sum_k q_k B_k A_k is one product of concatenated factors (rank K r): no dense matrix.
        split = [self.split(expert) for expert in experts]
        stacked = self.split(weights.to(experts) @ experts)  # buffers are averaged
        for a, b in self._pairs:
            stacked[a] = torch.cat([expert[a] for expert in split], dim=0)
            shares = zip(weights.to(experts), split, strict=True)
            stacked[b] = torch.cat([q * expert[b] for q, expert in shares], dim=1)
        self._attach(stacked)
        try:
            yield
        finally:
            self._attach(self.split(self.values.detach()))

    def share(self, vector: Tensor, before: Tensor, after: Tensor, share: float) -> None:
        """Add ``share`` of another expert's change of B A to the product of ``vector``, in place.

        The change is that from ``before`` to ``after``. Only B of ``vector`` changes, by the
        least-squares fit in the row space of its A. So A keeps its norm, which scales the steps
        of B.
        """
        mine, old, new = (self.split(each) for each in (vector, before, after))
        for a, b in self._pairs:
            rows = mine[a].flatten(1)
            change = new[b].flatten(1) @ (new[a].flatten(1) @ rows.T)
            change -= old[b].flatten(1) @ (old[a].flatten(1) @ rows.T)
            shift = change @ torch.linalg.pinv(rows @ rows.T, hermitian=True)
            mine[b].add_(shift.view_as(mine[b]), alpha=share)

    def _attach(self, tensors: list[Tensor]) -> None:
        for parameter, tensor in zip(self._parameters, tensors, strict=True):
            parameter.data = tensor
        self.changed()


def factor_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pair of names of A and B of every product."""
    return [(name, name.replace(_A, _B)) for name in names if _A in name]


def average_products(
    pairs: Sequence[tuple[Tensor, Tensor]], weights: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Return the pair ``(A, B)`` of rank r with B A nearest to the weighted mean of all B A.

    B A has the r largest singular values of the mean, which has a rank of up to K r. The rows of
    the new A have the mean length of the old ones, since it scales the steps of B.
    """
    first_a, first_b = pairs[0]
    stacked = torch.cat([a.flatten(1).double() for a, _ in pairs])
    beside = torch.cat(
        [q * b.flatten(1).double() for q, (_, b) in zip(weights, pairs, strict=True)], 1
    )
    # By QR of the factors, since the product itself may be large.
    left, left_factor = torch.linalg.qr(beside)
    right, right_factor = torch.linalg.qr(stacked.T)
    u, values, v = torch.linalg.svd(left_factor @ right_factor.T)
    rank = min(len(first_a), len(values))
    length = stacked.square().sum(dim=1).mean().sqrt().clamp_min(1e-12)
    a, b = torch.zeros_like(first_a).flatten(1), torch.zeros_like(first_b).flatten(1)
    a[:rank] = (length * (right @ v[:rank].T).T).to(a)
    b[:, :rank] = (left @ u[:, :rank] * values[:rank] / length).to(b)
    return a.view_as(first_a), b.view_as(first_b)
