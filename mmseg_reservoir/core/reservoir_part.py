"""Parts of a pipeline with a state for every expert, and the merging of such states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

State = dict[str, Any]
"""Plain data: tensors, numbers, strings, None, and dicts, lists and tuples of these."""

_CLASSES: dict[str, type[ReservoirPart]] = {}


class ReservoirPart(ABC):
    """Base class of routers, guards, poolings and other parts with a state for every expert.

    All states have this form, so that experts can be pruned, merged and exchanged:

    - ``"experts"``: One entry per expert, by index. An entry is None, or missing at the end of the
      list, without data about that expert.
    - ``"shared"``: The state that all experts share.
    - ``"stream"``, optional: The position of the part in its stream. It is dropped when experts
      are removed or merged; :meth:`load_state_dict` then gets None.

    The class methods combine saved states, without an instance. Their ``options`` are the
    :meth:`merge_options` of the instance. By default the entry of the expert that has seen more
    images is kept, and everything else is that of the first state.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[cls.__name__] = cls

    def merge_options(self) -> State:
        """Return the options in which two parts must agree to be merged, as plain JSON values."""
        return {}

    @abstractmethod
    def state_dict(self) -> State:
        """Return a copy of the state that the next step depends on."""

    @abstractmethod
    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""

    @classmethod
    def merge_shared(cls, options: State, one: State, other: State) -> State:
        """Return the merged shared state of two parts."""
        return one

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        """Return the entry of an expert that is merged from two.

        Args:
            options: Options of the part.
            one: Entry of the expert that has seen more images.
            other: Entry of the other expert.
            weight: Weight of the other expert, at most 1/2.
        """
        return one

    @classmethod
    def adopt_expert(cls, shared: State, entry: State) -> State:
        """Return another state's entry, converted for this shared state."""
        return entry

    @classmethod
    def regroup(cls, state: State) -> State:
        """Return a state after its experts have changed, ready to be loaded or merged."""
        return {**state, "stream": None}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        """Return the counts of a state for a later :meth:`delta`, as plain JSON values."""
        return {}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        """Return a state with counts since an earlier one, by its :meth:`progress`."""
        return state

    @classmethod
    def renumber_stream(cls, stream: Any, numbering: Sequence[int], count: int) -> Any:
        """Return the position in a stream for renumbered experts.

        Args:
            stream: Position with the old numbers.
            numbering: New number of each expert.
            count: New number of experts.
        """
        return None

    @classmethod
    def summary(cls, entry: State) -> State:
        """Return an expert's values for an overview, as plain JSON values."""
        return {}


def part_class(name: str) -> type[ReservoirPart] | None:
    """Return the class of a part by its name; None if no imported module defines it."""
    return _CLASSES.get(name)


def padded(values: Sequence[Any], count: int, value: Any = None) -> list[Any]:
    """Return a list of ``count`` items: the values, then ``value`` repeated."""
    return [*values, *[value] * (count - len(values))]


def events_by_expert(events: Iterable[State], count: int) -> list[list[State]]:
    """Return the events of each of ``count`` experts, without the expert's index."""
    own: list[list[State]] = [[] for _ in range(count)]
    for event in events:
        own[event["expert"]].append({k: value for k, value in event.items() if k != "expert"})
    return own
