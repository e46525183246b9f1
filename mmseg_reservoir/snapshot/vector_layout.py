"""The layout of an expert's flat vector, which can be read without the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..params.base import ParamSpace
from ..params.lora import average_products, factor_pairs
from ..params.normalization import batch_share


@dataclass(frozen=True)
class VectorLayout:
    """The positions of a parameter space's tensors in its vectors.

    Args:
        names: Names of the tensors.
        shapes: Shapes of the tensors.
        scaling: Factor on products of low-rank factors. Defaults to None, no such factors.
        batch_share: Share of the batch in the statistics that BatchNorm uses. Defaults to 0.
        added: Description of added modules to which the parameters belong, if the plain model
            does not have them. Defaults to None.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    scaling: float | None = None
    batch_share: float = 0.0
    added: str | None = None

    @classmethod
    def of(cls, space: ParamSpace) -> VectorLayout:
        """Return the layout of a space."""
        modules = space.model.modules()
        added = (getattr(module, "beyond_checkpoint", None) for module in modules)
        return cls(
            tuple(space.names),
            tuple(tuple(shape) for shape in space.shapes),
            space.scaling,
            batch_share(space.model),
            next(filter(None, added), None),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain JSON values."""
        return {**vars(self), "names": list(self.names), "shapes": [list(s) for s in self.shapes]}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> VectorLayout:
        """Return the layout that :meth:`to_json` wrote."""
        names = tuple(str(name) for name in plain["names"])
        shapes = tuple(tuple(int(n) for n in shape) for shape in plain["shapes"])
        if len(names) != len(shapes) or any(n < 0 for shape in shapes for n in shape):
            raise ValueError("names and shapes must be equally many, and sizes at least 0")
        scaling = None if plain["scaling"] is None else float(plain["scaling"])
        return cls(names, shapes, scaling, float(plain["batch_share"]), plain["added"])

    def __len__(self) -> int:
        """Return the length of a vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the tensors of a vector by name, as views."""
        pieces = vector.split([math.prod(shape) for shape in self.shapes])
        named = zip(self.names, pieces, self.shapes, strict=True)
        return {name: piece.view(shape) for name, piece, shape in named}

    def average(self, one: Tensor, other: Tensor, share: float) -> Tensor:
        """Return the mean of two vectors, with weight ``share`` of the second one.

        The mean of equal vectors is exactly equal to them. Low-rank factors are replaced by factors
        of the mean of their products.
        """
        if torch.equal(one, other):
            return one.clone()
        mean = torch.lerp(one, other, share)
        if self.scaling is not None:
            means, ones, others = self.split(mean), self.split(one), self.split(other)
            for a, b in factor_pairs(self.names):
                pairs = [(ones[a], ones[b]), (others[a], others[b])]
                factors = average_products(pairs, (1 - share, share))
                means[a].copy_(factors[0])
                means[b].copy_(factors[1])
        return mean
