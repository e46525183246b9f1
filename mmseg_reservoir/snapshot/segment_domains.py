"""What recognises the domains of a :class:`SegmentRouter` again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from ..routing.frame_memory import FrameMemory
from ..routing.segment_router import SegmentRouter
from .domains import Domains
from .parts import PARTS, State, and_zeros

_FRAMES = ("styles", "times", "fading")
_GAP = 2
"""Between the clocks of two streams: frames so far apart are not taken for successive ones."""


class SegmentDomains(Domains):
    """Of a ``SegmentRouter``: the frames that are kept of a domain, its spread and its age.

    Two domains are the same if the router would not split them, were they one: if the evidence for
    two means is no more than its ``odds``.
    """

    def numbers(self, component: SegmentRouter) -> State:
        chains = component.space.chains
        return {
            "space": {part: [step.__name__ for step in steps] for part, steps in chains.items()},
            "odds": component.odds,
            "members": component.members,
            "tau": component.tau,
        }

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        memory = dict(state["memory"])
        spreads = _spreads(memory)
        labels = memory.pop("labels")
        frames = {name: memory.pop(name) for name in _FRAMES}
        ages = state["ages"].tolist()
        parts = [
            {
                **{name: column[labels == i] for name, column in frames.items()},
                "spread": spreads[i],
                "age": ages[i],
            }
            for i in range(count)
        ]
        memory.pop("k")
        stream = {name: state[name] for name in ("posterior", "history", "known")}
        common = {name: value for name, value in state.items() if name not in (*stream, "ages")}
        return {**common, "memory": memory, "stream": stream}, parts

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        common = dict(common)
        memory, stream = common.pop("memory"), common.pop("stream")
        frames = {name: torch.cat([part[name] for part in parts]) for name in _FRAMES}
        counts = torch.tensor([len(part["times"]) for part in parts])
        frames["labels"] = torch.arange(len(parts)).repeat_interleave(counts)
        order = frames["times"].argsort()
        frames = {name: column[order] for name, column in frames.items()}
        ages = torch.tensor([part["age"] for part in parts], dtype=torch.float64)
        if stream is None:  # where the stream is, is not known
            posterior = torch.full((len(parts),), 1 / len(parts), dtype=torch.float64)
            stream = {"posterior": posterior, "history": [], "known": []}
        memory = {**memory, "k": len(parts), **frames}
        return {**common, **stream, "memory": memory, "ages": ages}

    def changed(self, common: State) -> State:
        return {**common, "stream": None}

    def merged(self, numbers: State, one: State, other: State) -> State:
        memory = {**one["memory"], "clock": self._start(one) + other["memory"]["clock"]}
        return {**self.changed(one), "memory": memory}

    def beside(self, common: State, part: State) -> State:
        """The frames of the other reservoir come after those of this one."""
        return {**part, "times": part["times"] + self._start(common)}

    @staticmethod
    def _start(common: State) -> int:
        return common["memory"]["clock"] + _GAP

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        limit = numbers["members"]
        counts = [len(part["times"]) for part in (one, other)]
        kept = [
            min(mine, max(limit // 2, limit - others))
            for mine, others in zip(counts, reversed(counts), strict=True)
        ]
        newest = [
            {name: part[name][len(part[name]) - n :] for name in _FRAMES}
            for part, n in zip((one, other), kept, strict=True)
        ]
        frames = {name: torch.cat([part[name] for part in newest]) for name in _FRAMES}
        # The spread follows from the frames, once the parts are put together.
        return {**frames, "spread": one["spread"], "age": one["age"] + other["age"]}

    def mark(self, common: State, parts: Sequence[State]) -> State:
        return {"clock": common["memory"]["clock"], "ages": [part["age"] for part in parts]}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        """The frames that came later, by a clock that begins with them."""
        start, newer = mark["clock"], []
        for part, before in zip(parts, and_zeros(mark["ages"], len(parts)), strict=True):
            later = part["times"] >= start
            frames = {name: part[name][later] for name in _FRAMES}
            frames["times"] = frames["times"] - start
            newer.append({**part, **frames, "age": part["age"] - before})
        memory = {**common["memory"], "clock": common["memory"]["clock"] - start}
        return {**common, "memory": memory}, newer

    def followed(self, common: State, own: State, numbering: Sequence[int], count: int) -> State:
        """The stream is in the domain that it was in; labels that it has given are final."""
        stream = own["stream"]
        if stream is None:
            return common
        posterior = torch.zeros(count, dtype=torch.float64)
        posterior[list(numbering)] = stream["posterior"]
        known = list(stream["known"])
        return {**common, "stream": {"posterior": posterior, "history": [], "known": known}}

    def distance(self, numbers: State, common: State, one: State, other: State) -> float:
        members = [part["styles"][~part["fading"]] for part in (one, other)]
        counts = [len(styles) for styles in members]
        if not all(counts):
            return math.inf
        pairs = counts[0] * counts[1] / sum(counts)
        spread = (counts[0] * one["spread"] + counts[1] * other["spread"]) / sum(counts)
        square = float((members[0].mean(dim=0) - members[1].mean(dim=0)).square().sum())
        # As in find_split: the gain in likelihood, less what two free means gain by chance.
        by_chance = math.log1p(pairs * common["reach"] / spread)
        gain = common["dimensions"] / 2 * (pairs * square / spread - by_chance)
        return gain / numbers["odds"]


def _spreads(memory: State) -> list[float]:
    """That of every domain, as the router has it."""
    kept = FrameMemory(memory["styles"].shape[1], memory["source_spread"])
    kept.load_state_dict(memory)
    return np.asarray(kept.spreads()[0]).tolist()


PARTS["SegmentRouter"] = SegmentDomains()
