"""Domains as round clouds of styles: a mean, a spread, and how sure we are of both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Domains:
    """Mean and spread of every domain; the first is the source and never changes.

    The spread of a domain of few members leans on the common spread of all that were found.

    Args:
        source: Styles of the source, ``(n, d)``, centred at zero.
        dimensions: Styles scatter as if they had this many independent directions.
        prior: The common spread counts as much as this many members.
    """

    def __init__(self, source: Tensor, dimensions: float, prior: float) -> None:
        self.dimensions = dimensions
        self.prior = prior
        squares = source.square().sum(dim=1)
        self.reach = float(squares.max())
        self._source_spread = float(squares.mean())
        self.means = source.new_zeros(1, source.shape[1])
        self.counts = torch.tensor([float(len(source))])
        self._scatter = torch.zeros(1)  # sums of squares around the means; the source's is unused
        self._freedom = torch.zeros(1)

    def __len__(self) -> int:
        return len(self.means)

    @property
    def freedom(self) -> Tensor:
        """How many members' worth of evidence each spread rests on, ``(K,)``."""
        return torch.cat([self.counts[:1], self._freedom[1:] + self.prior])

    @property
    def spreads(self) -> Tensor:
        """Expected squared distance of a style to the mean of its domain, ``(K,)``."""
        common = self._scatter.sum() / self._freedom.sum().clamp_min(1)
        spreads = (self.prior * common + self._scatter) / (self.prior + self._freedom)
        spreads[0] = self._source_spread
        return spreads.clamp_min(1e-12)

    def log_likelihoods(self, style: Tensor) -> Tensor:
        """Of one style under every domain, up to a constant, ``(K,)``."""
        spreads = self.spreads * (1 + 1 / self.counts)  # the means are estimates, too
        squares = (style - self.means).square().sum(dim=1)
        found = -self.dimensions / 2 * (squares / spreads + spreads.log())
        if len(self) > 1 and self.beyond_source(style):
            found[0] = -torch.inf
        return found

    def beyond_source(self, style: Tensor) -> bool:
        """Whether no source frame was ever so far out."""
        return bool(style.square().sum() > self.reach)

    def misfit(self, frames: Tensor) -> Tensor:
        """How far the mean of frames ``(n, d)`` is from every domain; about 1 for its own.

        The squared distance over what chance explains (Welch: each side with its own spread).
        """
        n, mean = len(frames), frames.mean(dim=0)
        scatter = (frames - mean).square().sum()
        own = (self.prior * self.spreads + scatter) / (self.prior + n - 1)
        own[0] = self.spreads[0]
        return (mean - self.means).square().sum(dim=1) / (own / n + self.spreads / self.counts)

    def open(self, frames: Tensor) -> None:
        """Found a domain by its first members, ``(n, d)``."""
        mean = frames.mean(dim=0)
        self.means = torch.cat([self.means, mean[None]])
        self.counts = torch.cat([self.counts, torch.tensor([float(len(frames))])])
        self._freedom = torch.cat([self._freedom, torch.tensor([len(frames) - 1.0])])
        self._scatter = torch.cat([self._scatter, (frames - mean).square().sum()[None]])

    def learn(self, domain: int, frames: Tensor) -> None:
        """Let a domain's mean and spread follow new members ``(n, d)``; the source stays."""
        if domain == 0:
            return
        for frame in frames:
            self.counts[domain] += 1
            self._freedom[domain] += 1
            step = frame - self.means[domain]
            self.means[domain] += step / self.counts[domain]
            self._scatter[domain] += step @ (frame - self.means[domain])

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on as if nothing had happened."""
        return {
            "means": self.means.clone(),
            "counts": self.counts.clone(),
            "scatter": self._scatter.clone(),
            "freedom": self._freedom.clone(),
            "source_spread": self._source_spread,
            "reach": self.reach,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.means, self.counts = state["means"].clone(), state["counts"].clone()
        self._scatter, self._freedom = state["scatter"].clone(), state["freedom"].clone()
        self._source_spread, self.reach = state["source_spread"], state["reach"]
