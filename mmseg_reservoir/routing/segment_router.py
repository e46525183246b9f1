"""Routing of single frames by segments, with correction of earlier mistakes."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Interval
from torch import Tensor

from ..core.route import Route
from ..errors import ReservoirError
from ..option_types import Count, Positive
from ..registry import register
from ..style.calibration import Calibration
from ..style.space import StyleSpace
from .base import Router, check_finite
from .frame_memory import FrameMemory, as_array
from .split import find_split

_ODD = 0.01
"""Share of frames that tell nothing about the domain they come from."""
_SOURCE_WINDOWS = 4000
"""Drawn with a fixed seed, for the largest square of the mean of ``run`` source frames."""


@register("router", "segment")
class SegmentRouter(Router):
    """A hidden Markov model whose domains are found on the way.

    Every frame goes to the most probable domain given all frames so far. The labels of the newest
    frames are corrected by what comes after them. A domain is opened
    - if the newest frames are explained better by an unknown domain than by all known ones, and
      their mean is farther out than that of any window of source frames; or
    - if the members of a domain are explained better by two, each of which lasts for a while. The
      part that the newest frame belongs to becomes the new domain, with all its earlier members.

    Args:
        space: In which styles are compared; None for whitened ones.
        k_max: The largest number of domains.
        run: The fewest frames that found a domain, and that a domain lasts on the average.
        odds: Log odds that are needed to open a domain.
        patience: A domain that has explained this many frames needs one more log odds to be split.
        margin: Frames are not of the source if the square of their mean is this many times the
            largest one of windows of source frames.
        switch: Probability that the domain changes from one frame to the next.
        lag: Frames whose labels may still change.
        members: Frames that are kept of every domain.
    """

    def __init__(
        self,
        space: StyleSpace | None = None,
        k_max: Count = 16,
        run: Annotated[int, Ge(2)] = 4,
        odds: float = 5.0,
        patience: Positive = 10.0,
        margin: float = 1.5,
        switch: Annotated[float, Interval(gt=0, lt=1)] = 0.1,
        lag: int = 12,
        members: int = 40,
    ) -> None:
        super().__init__(k_max)
        if not run <= lag <= members:
            raise ReservoirError(
                f"reservoir.router needs run <= lag <= members, got {run}, {lag} and {members}"
            )
        self.space = StyleSpace(all=["standardize", "whiten", "squash"]) if space is None else space
        self.run, self.lag, self.members = run, lag, members
        self.odds, self.patience, self.switch, self.margin = odds, patience, switch, margin
        self.tau: float | None = None

    def fit(self, calibration: Calibration) -> SegmentRouter:
        """Learn the space and how far out windows of source frames lie."""
        super().fit(calibration)
        self.space.fit(calibration.styles, calibration.groups)
        source = self.space.held_out.double().numpy()
        scatter = source.T @ source / len(source)
        self.reach = float(np.trace(scatter))
        self.dimensions = float(self.reach**2 / np.square(scatter).sum())
        draws = np.random.default_rng(0).integers(len(source), size=(_SOURCE_WINDOWS, self.run))
        farthest = max(float(np.square(source[d].mean(axis=0)).sum()) for d in draws)
        self.tau = self.margin * farthest
        self.memory = FrameMemory(source.shape[1], self.reach, self.members, recent=self.lag)
        self.posterior = np.ones(1)
        self.ages = np.zeros(1)
        self._history: list[tuple[np.ndarray, np.ndarray]] = []  # posterior, log-likelihoods
        self._known: list[float] = []  # log-probability of each of the newest frames
        return self

    @property
    def k(self) -> int:
        return self.memory.k

    def route(
        self, style: Tensor | None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Route one style vector and learn from it."""
        frame = self.space(check_finite(style)).double().numpy()
        self._filter(frame)
        index = int(self.posterior.argmax())
        self.memory.add(frame, index)
        # An unknown domain explains the frame better than all known ones do.
        fits = self.k == self.k_max or self._unknown(frame[None])[0] <= self._known[-1]
        is_new = may_open and self.k < self.k_max and self._found()
        if not is_new:
            self._correct()
            self.ages[index] += 1
            is_new = may_open and index > 0 and self.k < self.k_max and self._split(index)
        if is_new:
            index = self.k - 1
        weights = torch.from_numpy(self.posterior).float()
        return Route(index, weights, is_new, fits=bool(is_new or fits))

    def fallback_route(self) -> Route:
        """A frame that tells nothing is of the domain of those before it."""
        posterior = torch.from_numpy(self.posterior).float()
        return Route(int(posterior.argmax()), posterior, is_new=False, fits=False)

    def _log_likelihoods(self, frame: np.ndarray) -> np.ndarray:
        """Of one frame under every domain, ``(K,)``."""
        spreads, common = self.memory.spreads()
        means, counts = self.memory.means(), self.memory.counts().astype(float)
        counts[0] = np.inf
        with np.errstate(divide="ignore"):
            spreads = spreads * (1 + 1 / counts)
        squares = np.square(frame - means).sum(axis=1)
        typical = -self.dimensions / 2 * (squares / spreads + np.log(spreads))
        anywhere = common + self.reach
        odd = -self.dimensions / 2 * (frame @ frame / anywhere + math.log(anywhere))
        return np.where(counts > 0, np.logaddexp(typical, math.log(_ODD) + odd), -1e9)

    def _filter(self, frame: np.ndarray) -> None:
        """One step of the forward filter."""
        likelihoods = self._log_likelihoods(frame)
        prior = (1 - self.switch) * self.posterior + self.switch / self.k
        top = likelihoods.max()
        joint = prior * np.exp(likelihoods - top)
        self.posterior = joint / joint.sum()
        self._history = [*self._history, (self.posterior, likelihoods)][-self.lag :]
        self._known = [*self._known, float(math.log(joint.sum()) + top)][-self.lag :]

    def _correct(self) -> None:
        """Relabel the newest frames by all that came after them (backward smoothing)."""
        later = np.ones(self.k)
        for i, (posterior, likelihoods) in enumerate(reversed(self._history), start=1):
            self.memory.labels[-i] = int((posterior * later).argmax())
            seen = np.exp(likelihoods - likelihoods.max()) * later
            later = (1 - self.switch) * seen + self.switch * seen.mean()
            later /= later.max()

    def _found(self) -> bool:
        """Open a domain if an unknown one explains the newest frames better than all known."""
        frames = self.memory.tail(len(self._known))
        if len(frames) < self.run:
            return False
        gains = self._unknown(frames) - np.cumsum(self._known[-len(frames) :][::-1])
        n = int(gains[self.run - 1 :].argmax()) + self.run
        if gains[n - 1] <= self.odds:
            return False
        frames = frames[-n:]
        if np.square(frames.mean(axis=0)).sum() <= self.tau:
            return False
        # Frames from before and after a change are not of one domain.
        others = (frames.sum(axis=0) - frames) / (n - 1)
        among = np.square(frames - others).sum(axis=1)
        means = self.memory.means()[(self.memory.counts() > 0) | (np.arange(self.k) == 0)]
        to_known = np.square(frames[:, None] - means[None]).sum(axis=2).min(axis=1)
        if not (among < to_known).all():
            return False
        self._open(np.arange(len(self.memory.labels) - n, len(self.memory.labels)))
        return True

    def _unknown(self, frames: np.ndarray) -> np.ndarray:
        """Log-probability of the newest 1, 2, ... frames as one domain of unknown mean, spread."""
        frames = frames[::-1]
        common = self.memory.spreads()[1]
        n = np.arange(1, len(frames) + 1)
        lengths = np.square(np.cumsum(frames, axis=0) / n[:, None]).sum(axis=1)
        scatter = np.cumsum(np.square(frames).sum(axis=1)) - n * lengths
        half, ratio = self.dimensions / 2, self.reach / common
        a0 = self.memory.prior * half
        a, b0 = a0 + n * half, a0 * common
        b = b0 + half * (scatter + n * lengths / (1 + n * ratio))
        gammas = np.array([math.lgamma(value) for value in a]) - math.lgamma(a0)
        return gammas + a0 * math.log(b0) - a * np.log(b) - half * np.log1p(n * ratio)

    def _split(self, index: int) -> bool:
        """Open a domain if the members of one are better explained by two."""
        members = self.memory.members(index)
        if len(members) < 2 * self.run:
            return False
        part, evidence = find_split(
            self.memory.styles[members],
            self.memory.times[members],
            1 / self.memory.spreads()[0][index],
            self.reach,
            self.dimensions,
            self.switch,
            self.run,
        )
        # The longer a domain has stood, the less likely it is to be two.
        if evidence <= self.odds + self.ages[index] / self.patience:
            return False
        self._open(members[part])
        return True

    def _open(self, rows: np.ndarray) -> None:
        """Found a domain by rows of the memory; the stream now certainly is of it."""
        self.memory.k += 1
        self.memory.labels[rows] = self.k - 1
        self.posterior = np.zeros(self.k)
        self.posterior[-1] = 1
        self.ages = np.append(self.ages, 0)
        self._history = []
        frames = self.memory.tail(self.lag)
        self._known = [float(self._log_likelihoods(frame).max()) for frame in frames]

    def state_dict(self) -> dict[str, Any]:
        return {
            "space": self.space.state_dict(),
            "memory": self.memory.state_dict(),
            "posterior": torch.from_numpy(self.posterior.copy()),
            "ages": torch.from_numpy(self.ages.copy()),
            "history": [tuple(torch.from_numpy(x.copy()) for x in row) for row in self._history],
            "known": list(self._known),
            "tau": self.tau,
            "reach": self.reach,
            "dimensions": self.dimensions,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; what was calibrated comes from it, too."""
        k = state["memory"]["k"]
        if k > self.k_max:
            raise ReservoirError(f"the saved router has {k} domains, K_max is {self.k_max}")
        self.space.load_state_dict(state["space"])
        self.memory.load_state_dict(state["memory"])
        self.posterior, self.ages = as_array(state["posterior"]), as_array(state["ages"])
        self._history = [(as_array(a), as_array(b)) for a, b in state["history"]]
        self._known = list(state["known"])
        self.tau = state["tau"]
        self.reach, self.dimensions = state["reach"], state["dimensions"]
