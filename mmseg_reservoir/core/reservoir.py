"""The reservoir: parameter sets of one model, one per domain."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from ..errors import ReservoirError
from .reservoir_part import State
from .state import copied_to


@dataclass
class Tally:
    """The counts of an expert.

    Args:
        images: Number of images routed to it.
        visits: Number of sequences of consecutive batches routed to it.
        updates: Number of steps of its method.
    """

    images: int = 0
    visits: int = 0
    updates: int = 0


class Reservoir:
    """Experts as rows of one ``(K_max, P)`` matrix, each with the state of its method.

    Example:
        >>> import torch
        >>> reservoir = Reservoir(torch.zeros(3), state={}, k_max=4)
        >>> reservoir.add(torch.ones(3), state={})
        1
        >>> reservoir.experts
        tensor([[0., 0., 0.],
                [1., 1., 1.]])

    Args:
        source: Parameters of the source model, ``(P,)``, which are the first expert.
        state: Method state of the first expert.
        k_max: Largest number of experts.
    """

    def __init__(self, source: Tensor, state: State, k_max: int) -> None:
        self._matrix = source.new_empty(k_max, source.numel())
        self._states: list[State] = []
        self.tallies: list[Tally] = []
        self._last: int | None = None
        self.source = source.clone()
        self.add(source, state)

    def __len__(self) -> int:
        """Return K, the number of experts."""
        return len(self._states)

    @property
    def last(self) -> int:
        """Return the expert of the newest batch; 0, the source's, before the first batch."""
        return self._last or 0

    @property
    def experts(self) -> Tensor:
        """Return the parameters of all experts, ``(K, P)``, as a view for reading."""
        return self._matrix[: len(self)]

    def add(self, parameters: Tensor, state: State) -> int:
        """Append an expert and return its index."""
        index = len(self)
        if index == len(self._matrix):
            raise ReservoirError(f"the reservoir is full: K_max = {index}")
        self._matrix[index] = parameters
        self._states.append(state)
        self.tallies.append(Tally())
        return index

    def checkout(self, index: int) -> tuple[Tensor, State]:
        """Return an expert's parameters, as a view, and its state, by reference."""
        return self.experts[index], self._states[index]

    def commit(self, index: int, parameters: Tensor, state: State) -> None:
        """Store the parameters and the state of an expert."""
        self.experts[index] = parameters
        self._states[index] = state

    def count_batch(self, index: int, images: int, updates: int) -> None:
        """Count a batch of an expert, its images and its updates."""
        tally = self.tallies[index]
        tally.images += images
        tally.updates += updates
        tally.visits += index != self._last
        self._last = index

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all experts, in the form of a :class:`.ReservoirPart`."""
        # One deep copy, so that objects of several experts stay shared.
        rows = zip(self.experts.clone(), copy.deepcopy(self._states), self.tallies, strict=True)
        experts = [
            {"parameters": vector, "method": state, "tally": asdict(tally)}
            for vector, state, tally in rows
        ]
        return {
            "shared": {"source": self.source.clone()},
            "experts": experts,
            "stream": {"last": self._last},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`, on the device that this reservoir is on."""
        experts = state["experts"]
        shape, room = (len(experts), len(experts[0]["parameters"])), tuple(self._matrix.shape)
        if shape[0] > room[0] or shape[1] != room[1]:
            raise ReservoirError(
                f"the saved reservoir holds {shape} (experts, parameters), this one has room for "
                f"{room}: use the same model, params and K_max"
            )
        for row, expert in zip(self._matrix, experts, strict=False):
            row.copy_(expert["parameters"])
        self._states = copied_to([expert["method"] for expert in experts], self._matrix.device)
        self.source = state["shared"]["source"].to(self._matrix)
        self.tallies = [Tally(**expert["tally"]) for expert in experts]
        self._last = state["stream"]["last"]
