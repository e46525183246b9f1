"""Injection of BECoTTA's mixtures into a loaded SegFormer with unchanged weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ..errors import ReservoirError
from ..registry import choose, construct
from .mixture import (
    DomainDiscriminator,
    DomainGates,
    DomainShares,
    LowRankExperts,
    MixtureOfDomainExperts,
)

NAME = "becotta"
"""Name of the attribute that holds a model's :class:`BecottaParts`."""


DOMAINS = ("clear", "fog", "night", "rain", "snow")
"""Domains of the warm-up. Every mixture has one gate for each."""


@dataclass(frozen=True)
class Variant:
    """The size of the mixtures in each stage of a transformer.

    Args:
        experts: Number of experts in a mixture.
        top_k: Number of experts that an image uses.
        ranks: Rank of the experts in each stage; 0 for a stage without mixtures.
    """

    experts: int
    top_k: int
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", tuple(self.ranks))
        if not 1 <= self.top_k <= self.experts:
            raise ReservoirError(
                f"top_k must lie between 1 and the {self.experts} experts, got {self.top_k}"
            )
        if self.top_k == 1 < self.experts:
            # The softmax over one logit is always 1, so its gate could not learn.
            raise ReservoirError(
                f"top_k=1 of {self.experts} experts leaves the gates without a gradient: choose "
                "top_k=2 or more, or a single expert"
            )
        if not any(self.ranks) or min(self.ranks) < 0:
            raise ReservoirError(
                f"ranks {list(self.ranks)} must be 0 (no mixture in this stage) or more, with at "
                "least one mixture"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the options of this variant, as plain values."""
        return {**asdict(self), "ranks": list(self.ranks)}


VARIANTS: dict[str, Variant] = {
    "S": Variant(experts=4, top_k=3, ranks=(0, 0, 0, 6)),
    "M": Variant(experts=6, top_k=3, ranks=(2, 4, 10, 16)),
    "L": Variant(experts=6, top_k=3, ranks=(16, 32, 60, 80)),
}
"""The three sizes of the paper."""


def find_variant(variant: str | Mapping[str, Any] | Variant) -> Variant:
    """Return a variant by its name, or by ``dict(experts=..., top_k=..., ranks=...)``."""
    if isinstance(variant, Variant):
        return variant
    if isinstance(variant, Mapping):
        return construct(Variant, variant, "variant")
    return choose(variant, VARIANTS, "variant of BECoTTA")


class BecottaParts(nn.Module):
    """All modules that BECoTTA adds: one mixture per transformer block, and a discriminator.

    Args:
        variant: Size of the mixtures.
        dims: Number of a token's channels in each stage.
        depths: Number of blocks in each stage.

    For other arguments see :func:`inject`.
    """

    beyond_checkpoint = "mixtures of BECoTTA, with gates that read the image"
    """The parts that a plain checkpoint cannot store, for the error of an export."""

    def __init__(
        self,
        variant: Variant,
        dims: Sequence[int],
        depths: Sequence[int],
        domains: Sequence[str] = DOMAINS,
        blend: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not domains or len(set(domains)) != len(domains):
            raise ReservoirError(f"domains must be different names, got {list(domains)}")
        if len(variant.ranks) != len(dims):
            raise ReservoirError(
                f"the variant has ranks for {len(variant.ranks)} stages, the model has {len(dims)}"
            )
        self.variant, self.blend = variant, blend
        self.domains, self.dims, self.depths = tuple(domains), tuple(dims), tuple(depths)
        self.shares = DomainShares()
        self.discriminator = DomainDiscriminator(len(self.domains), seed=seed)
        sizes = [
            (dim, rank)
            for dim, depth, rank in zip(dims, depths, variant.ranks, strict=True)
            for _ in range(depth)
            if rank
        ]
        experts, top_k = variant.experts, variant.top_k
        self.mixtures = nn.ModuleList(
            MixtureOfDomainExperts(dim, experts, top_k, rank, len(domains), self.shares, own_seed)
            for own_seed, (dim, rank) in enumerate(sizes, start=1000 * seed)
        )
        self._labels: Tensor | None = None
        self._handles: list[Any] = []

    def attach(self, backbone: nn.Module, blocks: Sequence[nn.Module]) -> None:
        """Hook the discriminator before the backbone, and one mixture after each block."""
        self._handles = [backbone.register_forward_pre_hook(self.before_backbone)]
        for block, mixture in zip(blocks, self.mixtures, strict=True):
            self._handles.append(block.register_forward_hook(cast(Any, mixture).after_block))

    def detach(self) -> None:
        """Undo :meth:`attach`."""
        while self._handles:
            self._handles.pop().remove()

    @contextmanager
    def assigned(self, labels: Tensor) -> Iterator[None]:
        """Use given domains ``(N,)`` of images within this context, not the discriminator's."""
        self._labels = labels
        try:
            yield
        finally:
            self._labels = None

    @torch.no_grad()
    def before_backbone(self, backbone: nn.Module, args: tuple) -> None:
        """Set the domain shares of the images; a forward pre-hook of the backbone."""
        labels = self._labels
        if labels is None:
            logits = self.discriminator(args[0])
            if self.blend:
                self.shares.value = logits.softmax(dim=1)
                return
            labels = logits.argmax(dim=1)
        self.shares.value = one_hot(labels, len(self.domains))


def transformer_stages(model: nn.Module, under: str = "backbone") -> list[tuple[int, Any]]:
    """Return the number of channels and the blocks of every stage of a MixVisionTransformer."""
    backbone = getattr(model, under, None)
    stages: Any = getattr(backbone, "layers", None)
    try:
        # A stage is [patch embedding, blocks, norm].
        return [(norm.normalized_shape[-1], blocks) for _, blocks, norm in stages]
    except (TypeError, ValueError, AttributeError) as error:
        raise ReservoirError(
            f"BECoTTA works on mmseg's MixVisionTransformer (SegFormer); {under!r} of "
            f"{type(model).__name__} is a {type(backbone).__name__}: choose another model, or "
            "other params"
        ) from error


def inject(
    model: nn.Module,
    variant: str | Mapping[str, Any] | Variant = "S",
    domains: Sequence[str] = DOMAINS,
    under: str = "backbone",
    blend: bool = False,
    seed: int = 0,
) -> BecottaParts:
    """Add BECoTTA to a model with loaded weights, by forward hooks.

    The model's tensors keep their names. Its predictions do not change before warm-up or
    adaptation. An earlier injection is replaced.

    Args:
        model: A SegFormer of mmseg.
        variant: Size of the mixtures: ``"S"``, ``"M"``, ``"L"`` or
            ``dict(experts=..., top_k=..., ranks=...)``. Defaults to ``"S"``.
        domains: Names of the domains. Defaults to ``DOMAINS``.
        under: Name of the model's backbone. Defaults to ``"backbone"``.
        blend: Whether to blend the weights of all gates by the discriminator's softmax. Defaults to
            False: an image uses the gate of its most likely domain.
        seed: Seed of the initial values and of the gates' noise. Defaults to 0.
    """
    stages = transformer_stages(model, under)
    variant = find_variant(variant)
    dims, depths = [dim for dim, _ in stages], [len(blocks) for _, blocks in stages]
    becotta = BecottaParts(variant, dims, depths, domains, blend, seed)
    remove(model)
    backbone = getattr(model, under)
    like = next(backbone.parameters())
    becotta.to(like.device, like.dtype).train(model.training)
    chosen = [
        block
        for (_, blocks), rank in zip(stages, variant.ranks, strict=True)
        for block in blocks
        if rank
    ]
    becotta.attach(backbone, chosen)
    setattr(model, NAME, becotta)
    return becotta


def remove(model: nn.Module) -> None:
    """Remove BECoTTA from a model, if it has been injected."""
    if hasattr(model, NAME):
        getattr(model, NAME).detach()
        delattr(model, NAME)


def select_becotta(model: nn.Module) -> dict[str, nn.Parameter]:
    """Select the parameters that BECoTTA adapts: experts, and gates without their noise."""
    becotta = getattr(model, NAME, None)
    if not isinstance(becotta, BecottaParts):
        raise ReservoirError(
            f"{type(model).__name__} has no BECoTTA mixtures: inject them after loading its weights"
        )
    return {
        f"{NAME}.{name}.{leaf}": parameter
        for name, module in becotta.named_modules()
        if isinstance(module, (LowRankExperts, DomainGates))
        for leaf, parameter in module.named_parameters(recurse=False)
        if leaf != "noise_weight"
    }
