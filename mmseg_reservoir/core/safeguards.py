"""Safeguards: scale the update of an expert by trust, then share it with other experts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .change import Change, read_flags
from .expert_health import ProbePair
from .guard import Guard
from .pooling import Pooling
from .reservoir import Reservoir

if TYPE_CHECKING:
    from ..methods.base import AdaptationMethod


class Safeguards:
    """A guard and a pooling, applied to the updates of experts.

    Args:
        method: The adaptation method.
        reservoir: The experts.
        guard: Guard of the experts; None trusts all updates.
        pooling: Pooling of updates; None shares nothing.
        aligned: Function from an expert's index to the context of its forward passes.
        keeps_source: Whether expert 0 never changes.
    """

    def __init__(
        self,
        method: AdaptationMethod,
        reservoir: Reservoir,
        guard: Guard | None,
        pooling: Pooling | None,
        aligned: Callable[[int], AbstractContextManager[None]],
        keeps_source: bool,
    ) -> None:
        self.method, self.reservoir = method, reservoir
        self.guard, self.pooling = guard, pooling
        self._aligned, self._keeps_source = aligned, keeps_source

    def before(self, index: int) -> list[Tensor]:
        """Return an expert's vectors for :meth:`apply`, with a copy of its parameters."""
        expert, *others = self._vectors(index)
        return [expert.clone(), *others]

    def apply(
        self,
        index: int,
        before: list[Tensor],
        inputs: Tensor,
        adapting: Tensor,
        change: Change | None,
        checks: bool,
    ) -> bool:
        """Scale the update of an expert by the guard's trust, then share it with the others.

        The guard's trust in both experts scales the share of another expert. If a probe raises an
        alarm, the expert is also pulled back towards the source, and nothing is shared.

        Args:
            index: Index of the expert.
            before: Result of :meth:`before` from before the update.
            inputs: The batch.
            adapting: Prediction of the batch from before the update.
            change: Change by the update; None computes it, which waits for the device.
            checks: Whether the guard may probe.

        Returns:
            Whether the guard probed.
        """
        space, source, after = self.method.space, self.method.source, self._vectors(index)
        if change is None:
            change = Change(**read_flags(Change.flags(space, before[0], after[0], source)))
        if change.at_source:
            return False  # the method was reset: there is no step to scale or share
        keep, scales, moved = 1.0, torch.ones(len(self.reservoir)), change.moved
        probed = False
        if self.guard is not None:
            probed = checks and self.guard.is_due(index)
            if probed:
                keep = self.probe(index, before[0], after[0], inputs, adapting)
            scales = torch.tensor([self.guard.scale(i) for i in range(len(self.reservoir))])
            if scales[index] < 1:
                for old, new in zip(before, after, strict=True):
                    space.adapted(new).lerp_(space.adapted(old), 1 - float(scales[index]))
                moved = not torch.equal(before[0], after[0])
        if keep < 1:
            for vector in after:
                space.adapted(vector).lerp_(space.adapted(source), 1 - keep)
        elif moved and self._can_share(inputs):
            assert self.pooling is not None
            shares = self.pooling.shares(index, len(self.reservoir), len(inputs))
            shares *= scales * scales[index]
            if self._keeps_source:
                shares[0] = 0
            for other in shares.nonzero().flatten().tolist():
                # An expert that was never checked out has only its parameters.
                for old, new, vector in zip(before, after, self._vectors(other), strict=False):
                    space.share(vector, old, new, float(shares[other]))
        return probed

    def _can_share(self, inputs: Tensor) -> bool:
        """Return whether an update may be shared with other domains.

        It may if it averages over several images or over samples that the method selected. An
        average over all pixels of a single frame depends too much on that frame.
        """
        return self.pooling is not None and (len(inputs) > 1 or bool(self.method.filter_options))

    def probe(
        self, index: int, before: Tensor, after: Tensor, inputs: Tensor, adapting: Tensor
    ) -> float:
        """Return the factor to keep of an expert's distance from the source; 1 without an alarm.

        Args:
            index: Index of the expert.
            before: Values of the expert before the update.
            after: Values of the expert after the update, for their running statistics.
            inputs: The batch.
            adapting: Prediction of the batch from before the update.
        """
        assert self.guard is not None
        space, is_map = self.method.space, adapting.ndim > 2

        def predict(parameters: Tensor, plain: Tensor | None = None) -> ProbePair:
            vector = after.clone()
            space.adapted(vector).copy_(space.adapted(parameters))
            with space.at(vector), self._aligned(index):
                if plain is None:
                    plain = self.method.predict(inputs)
                mirrored = self.method.predict(inputs.flip(-1)).flip(-1) if is_map else None
            return ProbePair(plain, mirrored)

        return self.guard.judge(index, predict(before, adapting), predict(self.method.source))

    def _vectors(self, index: int) -> list[Tensor]:
        """Return the parameters of an expert and the parameter-like state of its method."""
        parameters, state = self.reservoir.checkout(index)
        return [parameters, *self.method.parameter_like_state(state)]
