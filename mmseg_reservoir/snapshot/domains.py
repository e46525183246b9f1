"""What recognises the domain of an expert again, by kind of router."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ..registry import find, table
from ..routing.base import Router
from ..routing.clustering import GradientClustering, KMeansClustering
from ..routing.style_router import StyleRouter
from .parts import PARTS, Parts, State, and_zeros


class Domains(Parts):
    """Divides the state of a router: what it knows of a domain is the part of that expert."""

    @abstractmethod
    def distance(self, numbers: State, common: State, one: State, other: State) -> float:
        """How different two domains are to the router: up to 1 it takes them for the same."""


class OracleDomains(Domains):
    """Of an ``OracleRouter``: the name of the domain. Expert 0, the source's, has none."""

    def numbers(self, component: Router) -> State:
        return {}

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        return {}, [{"domain": None}, *({"domain": name} for name in state["domains"])]

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        return {"domains": [part["domain"] for part in parts[1:]]}

    def distance(self, numbers: State, common: State, one: State, other: State) -> float:
        return 0.0 if one["domain"] == other["domain"] else math.inf

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        return one


class StyleDomains(Domains):
    """Of a ``StyleRouter``: its centroid.

    Two domains are the same if their centroids are no farther apart than ``tau`` (Eq. 7). The style
    memory is common: styles have no owner there. When centroids come, go or are averaged, their
    optimizer begins anew, as it is published for one that comes.
    """

    _ROWS = ("offsets", "centroids", "counts")
    """Of which a clustering has one for every centroid."""

    def numbers(self, component: StyleRouter) -> State:
        clustering, memory = component.clustering, component.memory
        return {
            "clustering": type(clustering).__name__,
            "distance": _distance_name(component),
            "memory": type(memory).__name__,
            "capacity": memory.capacity,
            "tau": component.tau,
        }

    def take_apart(self, state: State, count: int) -> tuple[State, list[State]]:
        clustering = dict(state["clustering"])
        rows = {name: clustering.pop(name) for name in self._ROWS if name in clustering}
        moments = clustering.pop("optimizer", {})
        steps = {name: moments.pop(name) for name in ("step",) if name in moments}
        parts: list[State] = [
            {
                "rows": {name: values[i] for name, values in rows.items()},
                "moments": {name: values[i] for name, values in moments.items()},
            }
            for i in range(count)
        ]
        return {**state, "clustering": clustering, "steps": steps}, parts

    def put_together(self, common: State, parts: Sequence[State]) -> State:
        common = dict(common)
        rows = _stacked([part["rows"] for part in parts])
        clustering, steps = {**common.pop("clustering"), **rows}, common.pop("steps")
        if "offsets" in rows:
            moments = _stacked([part["moments"] for part in parts]) if steps else {}
            clustering["optimizer"] = {**steps, **moments}
        return {**common, "clustering": clustering}

    def changed(self, common: State) -> State:
        return {**common, "steps": {}}

    def merged(self, numbers: State, one: State, other: State) -> State:
        memories = one["memory"], other["memory"]
        more = max(memories, key=lambda memory: memory["seen"])
        seen = sum(memory["seen"] for memory in memories)
        return self.changed(one) | {
            "memory": {**more, "seen": seen, "rows": _join_rows(memories, numbers["capacity"])}
        }

    def pooled(self, numbers: State, one: State, other: State, share: float) -> State:
        rows = {}
        for name, value in one["rows"].items():
            added = other["rows"][name]
            rows[name] = value + added if name == "counts" else torch.lerp(value, added, share)
        return {"rows": rows, "moments": {}}

    def mark(self, common: State, parts: Sequence[State]) -> State:
        counts = [float(part["rows"].get("counts", 0)) for part in parts]
        return {"seen": common["memory"]["seen"], "counts": counts}

    def since(
        self, mark: State, common: State, parts: Sequence[State]
    ) -> tuple[State, list[State]]:
        # A memory may have forgotten its count: no less than nothing has been seen.
        seen = max(0, common["memory"]["seen"] - mark["seen"])
        newer = []
        for part, before in zip(parts, and_zeros(mark["counts"], len(parts)), strict=True):
            rows = dict(part["rows"])
            if "counts" in rows:
                rows["counts"] = rows["counts"] - before
            newer.append({**part, "rows": rows})
        return {**common, "memory": {**common["memory"], "seen": seen}}, newer

    def distance(self, numbers: State, common: State, one: State, other: State) -> float:
        distance = find("distance", numbers["distance"])
        a, b = (self._centroid(common, part)[None] for part in (one, other))
        # Not every distance is the same both ways.
        return max(float(distance(a, b)), float(distance(b, a))) / numbers["tau"]

    def _centroid(self, common: State, part: State) -> Tensor:
        rows = part["rows"]
        if "centroids" in rows:
            return rows["centroids"]
        return common["clustering"]["origin"] + rows["offsets"]


def _stacked(rows: Sequence[State]) -> State:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def _join_rows(memories: Sequence[State], capacity: int) -> Tensor | None:
    """The styles of two memories. Where they are too many, each keeps by what it has seen."""
    rows = [[] if m["rows"] is None else list(m["rows"]) for m in memories]
    known = {tuple(row.tolist()) for row in rows[0]}
    rows[1] = [row for row in rows[1] if tuple(row.tolist()) not in known]
    if len(rows[0]) + len(rows[1]) > capacity:
        seen = sum(m["seen"] for m in memories)
        shares = [round(capacity * m["seen"] / seen) for m in memories]
        rows = [
            _thinned(mine, max(share, capacity - len(others)))
            for mine, others, share in zip(rows, reversed(rows), shares, strict=True)
        ]
    joined = [*rows[0], *rows[1]][:capacity]
    return torch.stack(joined) if joined else None


def _thinned(rows: list[Tensor], count: int) -> list[Tensor]:
    """So many of the rows, evenly spaced."""
    if len(rows) <= count:
        return rows
    return [rows[i * len(rows) // count] for i in range(count)]


def kind_of(router: Router) -> str:
    """The name under which its state can be divided; one that nobody knows if it cannot be."""
    name = type(router).__name__
    if type(router) is StyleRouter:
        if not isinstance(router.clustering, (GradientClustering, KMeansClustering)):
            return f"{name} with {type(router.clustering).__name__}"
        if _distance_name(router) is None:
            return f"{name} with a distance of one's own"
    return name


def _distance_name(router: StyleRouter) -> str | None:
    names = {part: name for name, part in table("distance").items()}
    return names.get(router.clustering.distance)


PARTS |= {"OracleRouter": OracleDomains(), "StyleRouter": StyleDomains()}
