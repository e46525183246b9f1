"""How the state of a router, a guard or a pooling is divided among the experts.

A part is all that belongs to one expert, such as what recognises its domain; the rest is common to
all. Parts can be left out, numbered anew, and combined with those of another reservoir.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

from ..core.alignment import Alignment
from ..core.domain_moments import DomainMoments
from ..errors import ReservoirError

State = dict[str, Any]


class Parts(ABC):
    """Divides the states of one kind of component; it keeps nothing itself."""

    @abstractmethod
    def numbers(self, component: Any) -> State:
        """What tells kinds of it apart, and what :meth:`distance` needs, as plain JSON values."""

    @abstractmethod
    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        """What is common to all, and the part of each of ``count`` experts."""

    @abstractmethod
    def put_together(self, common: State, parts: Sequence[State]) -> State:
        """Undo :meth:`take_apart`, also with fewer or other parts."""

    def changed(self, common: State) -> State:
        """What is common after experts came or went."""
        return common

    def merged(self, numbers: State, one: State, other: State) -> State:
        """What is common to the experts of two reservoirs."""
        return one

    def beside(self, common: State, part: State) -> State:
        """A part of another reservoir as it is to stand beside those of the one with ``common``."""
        return part

    @abstractmethod
    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        """The part of an expert that two become; ``share``, at most 1/2, of it is the other's."""

    def mark(self, common: State, parts: Sequence[State]) -> State:
        """How far all have come, as plain JSON values: what :meth:`since` has to know."""
        return {}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        """What came after a :meth:`mark`, where that adds up; the rest as it is now."""
        return common, list(parts)

    def followed(self, common: State, own: State, numbering: Sequence[int], count: int) -> State:
        """What is common, for a stream that is where ``own`` says.

        Args:
            common: To ``count`` experts, which may be of several streams.
            own: What was common to the experts of this stream.
            numbering: What number each expert of this stream has among them.
            count: How many they are.
        """
        return common


class Undivided(Parts):
    """Of a component that is not known here: its state is kept as one piece."""

    def __init__(self, name: str) -> None:
        self.name = name

    def numbers(self, component: Any) -> State:
        return {}

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        return {"state": state, "count": count}, [{} for _ in range(count)]

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        if len(parts) != common["count"]:
            self._refuse()
        return common["state"]

    def changed(self, common: State) -> State:
        self._refuse()

    def merged(self, numbers: State, one: State, other: State) -> State:
        self._refuse()

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReservoirError(
            f"the state of {self.name} cannot be divided among the experts, so they can be neither "
            "merged nor pruned: register how, in mmseg_reservoir.snapshot.parts.PARTS"
        )


class WatchParts(Parts):
    """Of a ``LabelGuard``: what it knows of an expert, and what it did to it."""

    def numbers(self, component: Any) -> State:
        return {}

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        common = {name: value for name, value in state.items() if name not in ("watches", "events")}
        parts = []
        for index in range(count):
            events = [event for event in state["events"] if event["expert"] == index]
            parts.append({"watch": state["watches"].get(str(index)), "events": events})
        return common, parts

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        watches = {str(i): p["watch"] for i, p in enumerate(parts) if p["watch"] is not None}
        events = [
            {**event, "expert": i} for i, part in enumerate(parts) for event in part["events"]
        ]
        return {**common, "watches": watches, "events": sorted(events, key=lambda e: e["step"])}

    def merged(self, numbers: State, one: State, other: State) -> State:
        return {**one, "steps": max(one["steps"], other["steps"])}

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        watch = one["watch"] or other["watch"]
        # What the two have become has not been looked at: it is, at its next batch.
        watch = None if watch is None else {**watch, "next": 0}
        return {"watch": watch, "events": one["events"] + other["events"]}

    def mark(self, common: State, parts: Sequence[State]) -> State:
        return {"steps": common["steps"]}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        newer = [
            {**p, "events": [event for event in p["events"] if event["step"] > mark["steps"]]}
            for p in parts
        ]
        return common, newer


class EvidenceParts(Parts):
    """Of an ``EvidencePooling``: how many images an expert learned from; those of two add up."""

    def numbers(self, component: Any) -> State:
        return {}

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        images = [*state["images"], *[0] * (count - len(state["images"]))]
        common = {name: value for name, value in state.items() if name != "images"}
        return common, [{"images": number} for number in images]

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        return {**common, "images": [part["images"] for part in parts]}

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        return {"images": one["images"] + other["images"]}

    def mark(self, common: State, parts: Sequence[State]) -> State:
        return {"images": [part["images"] for part in parts]}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        before = and_zeros(mark["images"], len(parts))
        pairs = zip(parts, before, strict=True)
        return common, [{"images": part["images"] - number} for part, number in pairs]


class MomentsParts(Parts):
    """Of an ``Alignment``: the moments of a domain, which merge by the number of images."""

    def numbers(self, component: Alignment) -> State:
        return component.options

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        shared = dict(state["shared"])
        events = shared.pop("events")
        return shared, [
            {"moments": moments, "events": [e for e in events if e["expert"] == index]}
            for index, moments in enumerate(state["experts"])
        ]

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        events = [{**e, "expert": i} for i, part in enumerate(parts) for e in part["events"]]
        return {
            "shared": {**common, "events": events},
            "experts": [part["moments"] for part in parts],
        }

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        events = one["events"] + other["events"]
        if one["moments"] is None or other["moments"] is None:
            return {"moments": one["moments"] or other["moments"], "events": events}
        first, second = (DomainMoments.of(part["moments"]) for part in (one, other))
        return {"moments": first.merged(second, share).state_dict(), "events": events}

    def mark(self, common: State, parts: Sequence[State]) -> State:
        return {
            name: [0 if p["moments"] is None else p["moments"][name] for p in parts]
            for name in _COUNTS
        } | {"events": [len(part["events"]) for part in parts]}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        before = {name: and_zeros(values, len(parts)) for name, values in mark.items()}
        newer = []
        for index, part in enumerate(parts):
            moments = part["moments"]
            if moments is not None:
                counts = {name: moments[name] - before[name][index] for name in _COUNTS}
                moments = {**moments, **counts}
            newer.append({"moments": moments, "events": part["events"][before["events"][index] :]})
        return common, newer


_COUNTS = ("images", "batches")  # of a domain's moments: what adds up


def and_zeros(numbers: Sequence[float], count: int) -> list[Any]:
    """The numbers of the first experts, and 0 for those that came after them."""
    return [*numbers, *[0] * (count - len(numbers))]


PARTS: dict[str, Parts] = {
    "LabelGuard": WatchParts(),
    "EvidencePooling": EvidenceParts(),
    "Alignment": MomentsParts(),
}
"""By the name of a component's class; one of a user's own may be added."""


def parts_of(name: str) -> Parts:
    """How states of a class of this name are divided."""
    return PARTS.get(name) or Undivided(name)
