"""The newest frames of every domain, with the mean and spread of each domain."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..core.reservoir_part import State

_AHEAD = 0.75
"""Smallest cosine of two steps in the same direction; near -1/2 for random frames of a domain."""
_ODD = 0.01
"""Assumed fraction of frames without information about their domain."""
_COLUMNS = ("styles", "times", "fading")
"""The saved attributes, arrays with one entry per frame."""
_GAP = 2
"""Clock gap between two merged streams, so that their frames do not count as successive."""


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

    @classmethod
    def of(cls, state: State) -> FrameMemory:
        """Return the memory of a state, to compute its spreads."""
        memory = cls(state["experts"][0]["styles"].shape[1], state["shared"]["source_spread"])
        memory.load_state_dict(state)
        return memory

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

    def log_likelihoods(self, frame: np.ndarray, dimensions: float) -> np.ndarray:
        """Return the log-likelihood of a frame under every domain, ``(K,)``.

        Args:
            frame: Style of the frame, ``(d,)``.
            dimensions: Number of independent directions in which styles scatter.
        """
        spreads, common = self.spreads()
        means, counts = self.means(), self.counts().astype(float)
        counts[0] = np.inf
        with np.errstate(divide="ignore"):
            spreads = spreads * (1 + 1 / counts)
        squares = np.square(frame - means).sum(axis=1)
        typical = -dimensions / 2 * (squares / spreads + np.log(spreads))
        anywhere = common + self.source_spread
        odd = -dimensions / 2 * (frame @ frame / anywhere + math.log(anywhere))
        return np.where(counts > 0, np.logaddexp(typical, math.log(_ODD) + odd), -1e9)

    def as_unknown(self, frames: np.ndarray, dimensions: float) -> np.ndarray:
        """Return the log-likelihood of the newest 1, 2, ... frames as one new domain.

        Its mean and spread are integrated out.
        """
        frames = frames[::-1]
        common = self.spreads()[1]
        n = np.arange(1, len(frames) + 1)
        lengths = np.square(np.cumsum(frames, axis=0) / n[:, None]).sum(axis=1)
        scatter = np.cumsum(np.square(frames).sum(axis=1)) - n * lengths
        half, ratio = dimensions / 2, self.source_spread / common
        a0 = self.prior * half
        a, b0 = a0 + n * half, a0 * common
        b = b0 + half * (scatter + n * lengths / (1 + n * ratio))
        gammas = np.array([math.lgamma(value) for value in a]) - math.lgamma(a0)
        evidence: np.ndarray = (
            gammas + a0 * math.log(b0) - a * np.log(b) - half * np.log1p(n * ratio)
        )
        return evidence

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


# Functions of saved states: the state that all domains share, and entries of single domains


def start_after(shared: State) -> int:
    """Return the first time of another stream, after a gap."""
    return int(shared["clock"]) + _GAP


def merge_frames(one: State, other: State, size: int) -> State:
    """Return the newest ``size`` frames of two domains, half from each if both have enough.

    The frames of the first domain come first.
    """
    pair = one, other
    counts = [len(entry["times"]) for entry in pair]
    kept = [
        min(mine, max(size // 2, size - others))
        for mine, others in zip(counts, reversed(counts), strict=True)
    ]
    return {
        name: torch.cat([e[name][len(e[name]) - n :] for e, n in zip(pair, kept, strict=True)])
        for name in _COLUMNS
    }


def newer_frames(entry: State, start: int) -> State:
    """Return the frames from time ``start`` on, with times that start at 0."""
    later = entry["times"] >= start
    frames = {name: entry[name][later] for name in _COLUMNS}
    return {**frames, "times": frames["times"] - start}
