"""Routing of single frames by segments, with correction of earlier mistakes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Interval
from torch import Tensor

from ..core.reservoir_part import State, padded
from ..core.route import Route
from ..errors import ReservoirError
from ..option_types import Count, Positive
from ..registry import register
from ..style.calibration import Calibration
from ..style.space import StyleSpace
from .base import Router, check_finite
from .frame_memory import FrameMemory, as_array, merge_frames, newer_frames, start_after
from .split import find_split

_SOURCE_WINDOWS = 4000  # drawn with a fixed seed, each of ``run`` frames


@register("router", "segment")
class SegmentRouter(Router):
    """Router of single frames by a hidden Markov model over domains, which opens new domains.

    Every frame goes to the most probable domain given all frames so far. Later frames correct the
    labels of the newest ones. The router opens a domain in two cases:

    - An unknown domain explains the newest frames better than all known ones. Their mean must also
      be farther from the source's mean than that of any window of source frames.
    - Two domains, each with long enough runs of frames, explain the members of a domain better than
      one. The part with the newest frame becomes the new domain.

    Args:
        space: Space in which styles are compared. Defaults to None: standardized, whitened and
            squashed styles.
        k_max: Largest number of domains. Defaults to 16.
        run: Fewest frames of a new domain, and shortest mean run of both parts of a split, in
            frames. Defaults to 4.
        odds: Log odds needed to open a domain. Defaults to 5.
        patience: Number of frames of a domain that raise the log odds to split it by one. Defaults
            to 10.
        margin: Squared distance from the source beyond which a domain may open, over the largest
            one of a window of source frames. Defaults to 1.5.
        switch: Probability that the domain changes from one frame to the next. Defaults to 0.1.
        lag: Number of newest frames with labels that may still change. Defaults to 12.
        members: Largest number of frames per domain. Defaults to 40.
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
        """Fit the space and the threshold ``tau`` to source styles; return the router."""
        super().fit(calibration)
        self.space.fit(calibration.styles, calibration.groups)
        source = self.space.held_out.double().numpy()
        scatter = source.T @ source / len(source)
        self.reach = float(np.trace(scatter))
        self.dimensions = float(self.reach**2 / np.square(scatter).sum())
        draws = np.random.default_rng(0).integers(len(source), size=(_SOURCE_WINDOWS, self.run))
        self.tau = self.margin * max(float(np.square(source[d].mean(axis=0)).sum()) for d in draws)
        self.memory = FrameMemory(source.shape[1], self.reach, self.members, recent=self.lag)
        self.posterior, self.ages = np.ones(1), np.zeros(1)
        self._history: list[tuple[np.ndarray, np.ndarray]] = []  # posterior, log-likelihoods
        self._evidence: list[float] = []  # log-likelihood of each of the newest frames
        return self

    @property
    def k(self) -> int:
        return self.memory.k

    def route(
        self, style: Tensor | None, *, may_open: bool = True, domain: str | None = None
    ) -> Route:
        """Return the route of a style vector, and learn from it."""
        frame = self.space(check_finite(style)).double().numpy()
        self._filter(frame)
        index = int(self.posterior.argmax())
        self.memory.add(frame, index)
        # A frame does not fit if an unknown domain explains it better than all others.
        unknown = self.memory.as_unknown(frame[None], self.dimensions)
        fits = self.k == self.k_max or unknown[0] <= self._evidence[-1]
        is_new = may_open and self.k < self.k_max and self._open_by_newest()
        if not is_new:
            self._correct()
            self.ages[index] += 1
            is_new = may_open and index > 0 and self.k < self.k_max and self._open_by_split(index)
        if is_new:
            index = self.k - 1
        weights = torch.from_numpy(self.posterior).float()
        return Route(index, weights, is_new, fits=bool(is_new or fits))

    def fallback_route(self) -> Route:
        """Return the route of the previous frames, for a frame without a usable style."""
        posterior = torch.from_numpy(self.posterior).float()
        return Route(int(posterior.argmax()), posterior, is_new=False, fits=False)

    def _filter(self, frame: np.ndarray) -> None:
        """Update the posterior by one step of the forward filter."""
        likelihoods = self.memory.log_likelihoods(frame, self.dimensions)
        prior = (1 - self.switch) * self.posterior + self.switch / self.k
        top = likelihoods.max()
        joint = prior * np.exp(likelihoods - top)
        self.posterior = joint / joint.sum()
        self._history = [*self._history, (self.posterior, likelihoods)][-self.lag :]
        self._evidence = [*self._evidence, float(math.log(joint.sum()) + top)][-self.lag :]

    def _correct(self) -> None:
        """Relabel the newest frames by their later frames (backward smoothing)."""
        later = np.ones(self.k)
        for i, (posterior, likelihoods) in enumerate(reversed(self._history), start=1):
            self.memory.labels[-i] = int((posterior * later).argmax())
            seen = np.exp(likelihoods - likelihoods.max()) * later
            later = (1 - self.switch) * seen + self.switch * seen.mean()
            later /= later.max()

    def _open_by_newest(self) -> bool:
        """Open a domain if it explains the newest frames better; return whether it was opened."""
        frames = self.memory.tail(len(self._evidence))
        if len(frames) < self.run:
            return False
        gains = self.memory.as_unknown(frames, self.dimensions)
        gains -= np.cumsum(self._evidence[-len(frames) :][::-1])
        n = int(gains[self.run - 1 :].argmax()) + self.run
        if gains[n - 1] <= self.odds:
            return False
        frames = frames[-n:]
        if np.square(frames.mean(axis=0)).sum() <= self.tau:
            return False
        # Each frame must be nearer to the others than to a known domain. This rejects windows with
        # frames from before and after a change.
        others = (frames.sum(axis=0) - frames) / (n - 1)
        among = np.square(frames - others).sum(axis=1)
        means = self.memory.means()[(self.memory.counts() > 0) | (np.arange(self.k) == 0)]
        to_means = np.square(frames[:, None] - means[None]).sum(axis=2).min(axis=1)
        if not (among < to_means).all():
            return False
        self._add_domain(np.arange(len(self.memory.labels) - n, len(self.memory.labels)))
        return True

    def _open_by_split(self, index: int) -> bool:
        """Split a domain if two explain its members better; return whether it was split."""
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
        # A domain that has explained many frames is less likely to be two.
        if evidence <= self.odds + self.ages[index] / self.patience:
            return False
        self._add_domain(members[part])
        return True

    def _add_domain(self, rows: np.ndarray) -> None:
        """Open a domain with rows of the memory, and make it the current one."""
        self.memory.k += 1
        self.memory.labels[rows] = self.k - 1
        self.posterior = np.eye(self.k)[-1]
        self.ages = np.append(self.ages, 0)
        self._history = []
        frames = self.memory.tail(self.lag)
        likelihoods = [self.memory.log_likelihoods(frame, self.dimensions) for frame in frames]
        self._evidence = [float(values.max()) for values in likelihoods]

    def state_dict(self) -> State:
        memory = self.memory.state_dict()
        ages = zip(memory["experts"], self.ages.tolist(), strict=True)
        shared = {
            "space": self.space.state_dict(),
            "memory": memory["shared"],
            "tau": self.tau,
            "reach": self.reach,
            "dimensions": self.dimensions,
        }
        stream = {
            "posterior": torch.from_numpy(self.posterior.copy()),
            "history": [tuple(torch.from_numpy(x.copy()) for x in row) for row in self._history],
            "known": list(self._evidence),
        }
        experts = [{**frames, "age": age} for frames, age in ages]
        return {"shared": shared, "experts": experts, "stream": stream}

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`, including the calibrated values."""
        shared, experts, stream = state["shared"], state["experts"], state["stream"]
        k = len(experts)
        if k > self.k_max:
            raise ReservoirError(f"the saved router has {k} domains, K_max is {self.k_max}")
        self.space.load_state_dict(shared["space"])
        self.memory.load_state_dict({"shared": shared["memory"], "experts": experts})
        self.ages = np.array([entry["age"] for entry in experts], dtype=float)
        if stream is None:  # the current domain is unknown: all are equally likely
            uniform = torch.full((k,), 1 / k, dtype=torch.float64)
            stream = {"posterior": uniform, "history": [], "known": []}
        self.posterior = as_array(stream["posterior"])
        self._history = [(as_array(a), as_array(b)) for a, b in stream["history"]]
        self._evidence = list(stream["known"])
        self.tau, self.reach, self.dimensions = (shared[n] for n in ("tau", "reach", "dimensions"))

    # The entry of an expert holds the frames of its domain, its spread and its age.

    def merge_options(self) -> State:
        chains = self.space.chains
        return {
            "space": {part: [step.__name__ for step in steps] for part, steps in chains.items()},
            "odds": self.odds,
            "members": self.members,
            "tau": self.tau,
        }

    @classmethod
    def distance(cls, options: State, shared: State, one: State, other: State) -> float:
        """Return the log evidence for two domains, divided by ``odds``."""
        members = [entry["styles"][~entry["fading"]] for entry in (one, other)]
        counts = [len(styles) for styles in members]
        if not all(counts):
            return math.inf
        pairs = counts[0] * counts[1] / sum(counts)
        spread = (counts[0] * one["spread"] + counts[1] * other["spread"]) / sum(counts)
        square = float((members[0].mean(dim=0) - members[1].mean(dim=0)).square().sum())
        # As in find_split: the gain in likelihood, minus the gain that two free means have by
        # chance.
        by_chance = math.log1p(pairs * shared["reach"] / spread)
        gain = shared["dimensions"] / 2 * (pairs * square / spread - by_chance)
        return float(gain / options["odds"])

    @classmethod
    def merge_shared(cls, options: State, one: State, other: State) -> State:
        clock = start_after(one["memory"]) + other["memory"]["clock"]
        return {**one, "memory": {**one["memory"], "clock": clock}}

    @classmethod
    def adopt_expert(cls, shared: State, entry: State) -> State:
        """Return the entry with its frames after all frames of this reservoir."""
        return {**entry, "times": entry["times"] + start_after(shared["memory"])}

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        """Return the newest frames of both; :meth:`regroup` computes their spread."""
        frames = merge_frames(one, other, options["members"])
        return {**frames, "spread": one["spread"], "age": one["age"] + other["age"]}

    @classmethod
    def regroup(cls, state: State) -> State:
        """Return the state with new spreads, which depend on all frames, and without stream."""
        shared, experts = state["shared"], state["experts"]
        memory = FrameMemory.of({"shared": shared["memory"], "experts": experts}).state_dict()
        pairs = zip(memory["experts"], experts, strict=True)
        experts = [{**frames, "age": entry["age"]} for frames, entry in pairs]
        return {"shared": shared, "experts": experts, "stream": None}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        ages = [entry["age"] for entry in state["experts"]]
        return {"clock": state["shared"]["memory"]["clock"], "ages": ages}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        """Return the later frames, with times that start at 0."""
        start, experts, memory = progress["clock"], state["experts"], state["shared"]["memory"]
        ages = zip(experts, padded(progress["ages"], len(experts), 0), strict=True)
        newer = [{**e, **newer_frames(e, start), "age": e["age"] - age} for e, age in ages]
        memory = {**memory, "clock": memory["clock"] - start}
        return {**state, "shared": {**state["shared"], "memory": memory}, "experts": newer}

    @classmethod
    def renumber_stream(cls, stream: Any, numbering: Sequence[int], count: int) -> Any:
        """Return the position with renumbered domains; earlier labels become final."""
        if stream is None:
            return None
        posterior = torch.zeros(count, dtype=torch.float64)
        posterior[list(numbering)] = stream["posterior"]
        return {"posterior": posterior, "history": [], "known": list(stream["known"])}
