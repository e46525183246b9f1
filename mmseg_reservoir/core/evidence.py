"""Evidence over time: what consecutive frames say together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError


class StickyFilter:
    """Posterior of the domains in a stream that seldom changes.

    The forward filter of a hidden Markov model. A frame that clearly belongs elsewhere switches at
    once; one that could belong to either stays.

    Args:
        switch: Probability that the next frame is of a domain drawn anew.
    """

    def __init__(self, switch: float = 0.1) -> None:
        if not 0 < switch <= 1:
            raise ReservoirError(f"switch is a probability in (0, 1], got {switch}")
        self.switch = switch
        self.posterior = torch.ones(1)

    def update(self, log_likelihoods: Tensor) -> Tensor:
        """Take in the log-likelihoods of a frame under the K domains: the posterior, ``(K,)``."""
        k = len(self.posterior)
        prior = (1 - self.switch) * self.posterior + self.switch / k
        self.posterior = (prior.log() + log_likelihoods).softmax(dim=0)
        return self.posterior

    def open(self) -> Tensor:
        """Add a domain, of which the stream now certainly is."""
        self.posterior = torch.cat([torch.zeros_like(self.posterior), torch.ones(1)])
        return self.posterior


class Window:
    """The newest frames of one domain; a change of the domain empties it.

    Args:
        length: The largest number of frames.
    """

    def __init__(self, length: int = 5) -> None:
        if length < 2:
            raise ReservoirError(f"the window needs at least 2 frames, got {length}")
        self.length = length
        self.clear()

    def clear(self, domain: int = 0) -> None:
        """Forget all frames."""
        self.domain = domain
        self.fresh = 0
        self._frames: list[Tensor] = []

    @property
    def full(self) -> bool:
        """Whether there are as many frames as it holds."""
        return len(self._frames) == self.length

    @property
    def frames(self) -> Tensor:
        """The frames, ``(n, d)``, oldest first."""
        return torch.stack(self._frames)

    def push(self, style: Tensor, domain: int) -> None:
        """Add a frame that was sent to a domain."""
        if domain != self.domain:
            self.clear(domain)
        self._frames = [*self._frames, style][-self.length :]
        self.fresh = min(self.fresh + 1, self.length)

    def take_fresh(self) -> Tensor:
        """The frames that have not been taken before, ``(n, d)``."""
        fresh = self.frames[len(self._frames) - self.fresh :]
        self.fresh = 0
        return fresh

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""
        frames = [frame.clone() for frame in self._frames]
        return {"domain": self.domain, "fresh": self.fresh, "frames": frames}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.domain, self.fresh = state["domain"], state["fresh"]
        self._frames = [frame.clone() for frame in state["frames"]][-self.length :]
