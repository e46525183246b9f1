"""The sizes of BECoTTA: how many experts, how many of them at a time, and of which rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ReservoirError
from ..registry import choose, construct

DOMAINS = ("clear", "fog", "night", "rain", "snow")
"""The domains of the warm-up; each has a gate of its own in every mixture."""


@dataclass(frozen=True)
class Variant:
    """The size of the mixtures in each stage of a transformer.

    Args:
        experts: Experts in every mixture.
        top_k: How many of them work on an image.
        ranks: Rank of the experts by stage; 0 for a stage without mixtures.
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
            # The softmax over one chosen logit is 1 whatever the gate says.
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
        """The options that make this variant, as plain values."""
        return {**asdict(self), "ranks": list(self.ranks)}


VARIANTS: dict[str, Variant] = {
    "S": Variant(experts=4, top_k=3, ranks=(0, 0, 0, 6)),
    "M": Variant(experts=6, top_k=3, ranks=(2, 4, 10, 16)),
    "L": Variant(experts=6, top_k=3, ranks=(16, 32, 60, 80)),
}
"""The three sizes of the paper."""


def find_variant(variant: str | Mapping[str, Any] | Variant) -> Variant:
    """A variant by its name, or from ``dict(experts=..., top_k=..., ranks=...)``."""
    if isinstance(variant, Variant):
        return variant
    if isinstance(variant, Mapping):
        return construct(Variant, variant, "variant")
    return choose(variant, VARIANTS, "variant of BECoTTA")
