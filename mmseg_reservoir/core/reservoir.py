"""The reservoir: many parameter sets of one model, one per discovered style."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from ..errors import ReservoirError
from .state import copied_to

State = dict[str, Any]


@dataclass
class Tally:
    """What an expert has met.

    Args:
        images: That it adapted to.
        visits: Runs of batches, one after the other, that all came to it.
        updates: Steps that its method made.
    """

    images: int = 0
    visits: int = 0
    updates: int = 0


class Reservoir:
    """Experts as rows of one ``(K_max, P)`` matrix, each with the opaque state of its method.

    Example:
        >>> import torch
        >>> reservoir = Reservoir(torch.zeros(3), state={}, k_max=4)
        >>> reservoir.add(torch.ones(3), state={})
        1
        >>> reservoir.experts
        tensor([[0., 0., 0.],
                [1., 1., 1.]])

    Args:
        source: Parameters of the source model, ``(P,)``: the first expert.
        state: Its method state.
        k_max: The largest number of experts.
    """

    def __init__(self, source: Tensor, state: State, k_max: int) -> None:
        self._matrix = source.new_empty(k_max, source.numel())
        self._states: list[State] = []
        self.tallies: list[Tally] = []
        self._last: int | None = None
        self.source = source.clone()
        self.add(source, state)

    def __len__(self) -> int:
        """K, the number of experts."""
        return len(self._states)

    @property
    def last(self) -> int:
        """The expert of the newest batch that one adapted to; 0, the source's, before the first."""
        return self._last or 0

    @property
    def experts(self) -> Tensor:
        """The parameters of all experts, ``(K, P)``: a view, to be read."""
        return self._matrix[: len(self)]

    def add(self, parameters: Tensor, state: State) -> int:
        """Append an expert; returns its index."""
        index = len(self)
        if index == len(self._matrix):
            raise ReservoirError(f"the reservoir is full: K_max = {index}")
        self._matrix[index] = parameters
        self._states.append(state)
        self.tallies.append(Tally())
        return index

    def checkout(self, index: int) -> tuple[Tensor, State]:
        """Parameters (a view) and state (by reference) of an expert."""
        return self.experts[index], self._states[index]

    def commit(self, index: int, parameters: Tensor, state: State) -> None:
        """Store what adaptation made of an expert."""
        self.experts[index] = parameters
        self._states[index] = state

    def note(self, index: int, images: int, updates: int) -> None:
        """Count a batch that an expert adapted to."""
        tally = self.tallies[index]
        tally.images += images
        tally.updates += updates
        tally.visits += index != self._last
        self._last = index

    def state_dict(self) -> dict[str, Any]:
        """A copy of all experts."""
        return {
            "source": self.source.clone(),
            "experts": self.experts.clone(),
            "states": copy.deepcopy(self._states),
            "tallies": [asdict(tally) for tally in self.tallies],
            "last": self._last,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, on the device that this reservoir is on."""
        experts = state["experts"]
        if len(experts) > len(self._matrix) or experts.shape[1] != self._matrix.shape[1]:
            raise ReservoirError(
                f"the saved reservoir holds {tuple(experts.shape)} (experts, parameters), this one "
                f"has room for {tuple(self._matrix.shape)}: use the same model, params and K_max"
            )
        self._matrix[: len(experts)] = experts
        self._states = copied_to(state["states"], self._matrix.device)
        self.source = state["source"].to(self._matrix)
        # Older states counted nothing.
        self.tallies = [Tally(**tally) for tally in state.get("tallies", [{}] * len(experts))]
        self._last = state.get("last")
