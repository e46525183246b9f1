"""Robust batch normalisation (RoTTA, Yuan et al., CVPR 2023, Sec. 3.2)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...errors import ReservoirError
from ...spaces.base import ParamSpace
from ...spaces.normalisation import BlendedBatchNorm, blend, carry_statistics, learning


class RobustNorms:
    """All BatchNorm layers of a model, made robust; their statistics become part of the space.

    The layers normalise by statistics that follow the stream slowly: by their blend with those of
    the batch where they learn, elsewhere by them as they are.

    Args:
        space: The parameters that adapt; before an optimizer holds its values.
        rate: The share of a batch in the statistics.
    """

    def __init__(self, space: ParamSpace, rate: float) -> None:
        blending = [m for m in space.model.modules() if isinstance(m, BlendedBatchNorm)]
        if any(layer.always for layer in blending):
            raise ReservoirError(
                "robust normalisation blends statistics by itself, but the model has been told to "
                'blend them already: build the method with statistics="running"'
            )
        self.layers = blend(space.model, rate, always=False)
        carry_statistics(space, self.layers)

    def learning(self) -> AbstractContextManager[None]:
        """Within this context every forward pass moves the statistics."""
        return learning(self.layers.values())
