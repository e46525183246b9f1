"""The newest frames of every domain, with the mean and spread of each domain."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..core.reservoir_part import State

_AHEAD = 0.75
"""Cosine above which two successive steps have the same direction. Random frames of one domain
have a cosine near -1/2."""


_COLUMNS = ("styles", "times", "fading")
"""The saved attributes, arrays with one entry per frame."""


class FrameMemory:
    """Styles of frames in the order of time, each labeled with a domain.

    Labels may change. Mean and spread of a domain are computed from its current members.
    A frame between its two neighbors in style space is part of a fade. It belongs to no domain,
    and nothing is learned from it.

    Args:
        width: Length of a style.
        spread: Expected squared length of a source style.
        size: Largest number of frames per domain; the oldest are removed. Defaults to 40.
        prior: Weight of the common spread in that of a domain, in pairs of successive frames. The
            source's spread has the same weight in the common one. Defaults to 2.
        recent: Largest number of frames of domain 0, which does not learn. Defaults to 12.
    """

    def __init__(
        self, width: int, spread: float, size: int = 40, prior: float = 2.0, recent: int = 12
    ) -> None:
        self.source_spread = spread
        self.size = size
        self.prior = prior
        self.recent = recent
        self.k = 1
        self.clock = 0
        self.styles = np.zeros((0, width))
        self.labels = np.zeros(0, dtype=int)
        self.times = np.zeros(0, dtype=int)
        self.fading = np.zeros(0, dtype=bool)
        self._steps = np.zeros(0)  # half the squared distance to the previous frame
        self._means: dict[int, tuple[bytes, np.ndarray]] = {}  # by domain, with its times

    def add(self, style: np.ndarray, label: int) -> None:
        """Store a frame; remove the oldest of its domain if there are too many."""
        before = self.styles[-1] if len(self.styles) else style
        self._steps = np.append(self._steps, np.square(style - before).sum() / 2)
        self.styles = np.concatenate([self.styles, style[None]])
        self.labels = np.append(self.labels, label)
        self.times = np.append(self.times, self.clock)
        # The next frame is unknown: mark the newest one as fading if the one before is.
        ahead = self._goes_ahead()
        self.fading = np.append(self.fading, ahead)
        self.fading[-2:] = ahead
        self.clock += 1
        members = np.flatnonzero(self.labels == label)
        limit = self.size if label else self.recent
        if len(members) > limit:
            oldest = members[: len(members) - limit]
            for name in (*_COLUMNS, "labels", "_steps"):
                setattr(self, name, np.delete(getattr(self, name), oldest, axis=0))

    def _goes_ahead(self) -> bool:
        """Return whether the newest two steps have the same direction."""
        if len(self.times) < 3 or self.times[-1] - self.times[-3] > 2:
            return False
        before, after = np.diff(self.styles[-3:], axis=0)
        length = np.sqrt((before @ before) * (after @ after))
        return bool(before @ after > _AHEAD * length)

    def tail(self, n: int) -> np.ndarray:
        """Return the newest frames after the last gap or fade, at most ``n``, oldest first."""
        times = self.times[-n:]
        breaks = (np.diff(times, prepend=times[:1]) > 1).nonzero()[0].tolist()
        breaks += (self.fading[-n:].nonzero()[0] + 1).tolist()
        return self.styles[len(self.styles) - len(times) + max(breaks, default=0) :]

    def members(self, label: int) -> np.ndarray:
        """Return the row indices of a domain's frames, without those of a fade."""
        return np.flatnonzero((self.labels == label) & ~self.fading)

    def counts(self) -> np.ndarray:
        """Return the number of members of every domain, ``(K,)``."""
        return np.bincount(self.labels[~self.fading], minlength=self.k)

    def means(self) -> np.ndarray:
        """Return the mean of every domain, ``(K, d)``; that of the source is zero."""
        means = np.zeros((self.k, self.styles.shape[1]))
        for k in range(1, self.k):
            rows = self.members(k)
            if len(rows):
                times = self.times[rows].tobytes()
                if k not in self._means or self._means[k][0] != times:
                    self._means[k] = times, self.styles[rows].mean(axis=0)
                means[k] = self._means[k][1]
        return means

    def spreads(self) -> tuple[np.ndarray, float]:
        """Return the spread of every domain, ``(K,)``, and the spread common to all.

        A spread is the expected squared distance of a style to the mean of its domain. Estimating
        it from successive frames avoids too large values where a label covers two domains.
        """
        same = (np.diff(self.times) == 1) & (self.labels[1:] == self.labels[:-1])
        same &= ~(self.fading[1:] | self.fading[:-1])
        totals = np.bincount(self.labels[1:][same], self._steps[1:][same], minlength=self.k)
        pairs = np.bincount(self.labels[1:][same], minlength=self.k)
        common = self.prior * self.source_spread + totals[1:].sum()
        common = float(common / (self.prior + pairs[1:].sum()))
        spreads = (self.prior * common + totals) / (self.prior + pairs)
        spreads[0] = self.source_spread
        return spreads.clip(1e-12), max(common, 1e-12)

    def state_dict(self) -> State:
        """Return the frames of every domain and, for :meth:`SegmentRouter.distance`, its spread."""
        spreads = self.spreads()[0].tolist()
        experts: list[State] = []
        for index in range(self.k):
            own = self.labels == index
            frames = {name: torch.from_numpy(getattr(self, name)[own]) for name in _COLUMNS}
            experts.append({**frames, "spread": spreads[index]})
        shared = {"clock": self.clock, "source_spread": self.source_spread}
        return {"shared": shared, "experts": experts}

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""
        shared, experts = state["shared"], state["experts"]
        self.k, self.clock = len(experts), shared["clock"]
        self.source_spread = shared["source_spread"]
        columns = {n: np.concatenate([as_array(e[n]) for e in experts]) for n in _COLUMNS}
        counts = [len(entry["times"]) for entry in experts]
        columns["labels"] = np.repeat(np.arange(self.k), counts)
        order = columns["times"].argsort()
        for name, column in columns.items():
            setattr(self, name, column[order])
        steps = np.diff(self.styles, axis=0, prepend=self.styles[:1])
        self._steps = np.square(steps).sum(axis=1) / 2
        self._means = {}


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a copy of a tensor of any device as an array."""
    return tensor.cpu().numpy().copy()
