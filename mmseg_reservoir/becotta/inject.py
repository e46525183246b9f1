"""Putting BECoTTA's mixtures into a loaded SegFormer, without a change of its own weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ..errors import ReservoirError
from .discriminator import DomainDiscriminator
from .mixture import DomainGates, DomainShares, LowRankExperts, MixtureOfDomainExperts
from .variants import DOMAINS, Variant, find_variant

NAME = "becotta"
"""The attribute of the model that holds what was added."""


class BecottaParts(nn.Module):
    """All that BECoTTA adds to a model: one mixture per transformer block, and a discriminator.

    Args:
        variant: The size.
        dims: Channels of a token, by stage.
        depths: Blocks, by stage.
        domains: Names of the domains.
        blend: False: an image uses the gate of the domain that the discriminator finds most
            likely. True: the weights of all gates, blended by the discriminator's softmax.
        seed: Of the initial values and of the gates' noise.
    """

    beyond_checkpoint = "mixtures of BECoTTA, whose gates look at the image"
    """What a plain checkpoint has no place for."""

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
        """Look at the images that enter the backbone, and work behind each of the blocks."""
        self._handles = [backbone.register_forward_pre_hook(self.before_backbone)]
        for block, mixture in zip(blocks, self.mixtures, strict=True):
            self._handles.append(block.register_forward_hook(mixture.after_block))

    def detach(self) -> None:
        """Undo :meth:`attach`."""
        while self._handles:
            self._handles.pop().remove()

    @contextmanager
    def assigned(self, labels: Tensor) -> Iterator[None]:
        """Within the block, the domains ``(N,)`` of images are known and not guessed."""
        self._labels = labels
        try:
            yield
        finally:
            self._labels = None

    @torch.no_grad()
    def before_backbone(self, backbone: nn.Module, args: tuple) -> None:
        """A forward pre-hook of the backbone: find the domains of the images."""
        labels = self._labels
        if labels is None:
            logits = self.discriminator(args[0])
            if self.blend:
                self.shares.value = logits.softmax(dim=1)
                return
            labels = logits.argmax(dim=1)
        self.shares.value = one_hot(labels, len(self.domains))


def transformer_stages(model: nn.Module, under: str = "backbone") -> list[tuple[int, nn.Module]]:
    """Channels and blocks of every stage of a MixVisionTransformer, found by its structure."""
    backbone = getattr(model, under, None)
    stages = getattr(backbone, "layers", None)
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
    """Add BECoTTA to a model that has its weights already.

    Forward hooks do the work, so the model's own tensors keep their names. Nothing changes in its
    predictions before the warm-up or adaptation. What was injected before is replaced.

    Args:
        model: A SegFormer of mmseg.
        variant: ``"S"``, ``"M"``, ``"L"`` or ``dict(experts=..., top_k=..., ranks=...)``.
        domains: Names of the domains.
        under: Name of the model's backbone.
        blend: See :class:`BecottaParts`.
        seed: Of the initial values and of the gates' noise.
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
    """Take BECoTTA out of a model again, if it is there."""
    if hasattr(model, NAME):
        getattr(model, NAME).detach()
        delattr(model, NAME)


def select_becotta(model: nn.Module) -> dict[str, nn.Parameter]:
    """What BECoTTA adapts: the experts, and the gates without their noise (which is off at test).

    Neither the discriminator nor any weight of the model itself is among it.
    """
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
