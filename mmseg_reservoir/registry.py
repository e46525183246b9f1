"""Registered parts: one table per kind of part, open to a user's own files.

Every part that a config can choose (a method, a router, a statistic, ...) is registered under a
name, by this package or by a file that the config imports (``custom_imports``)::

    @register("router", "nearest")
    class NearestRouter(Router): ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .errors import ReservoirError

T = TypeVar("T")

KINDS: dict[str, str] = {
    "method": "adaptation method",
    "params": "params.type",
    "router": "router",
    "style": "style encoder",
    "statistic": "style statistic",
    "memory": "memory",
    "clustering": "clustering",
    "distance": "distance",
    "transform": "transform of styles",
    "space": "style space",
    "init": "initialisation of experts",
    "guard": "guard",
    "pooling": "pooling",
    "trigger": "trigger",
    "alignment": "alignment",
    "pipeline": "pipeline",
    "optimizer": "optimizer",
    "stream": "stream",
    "data": "data set",
    "source": "source",
    "backbone": "backbone",
}
"""What can be registered, and what messages call it."""


_TABLES: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}


def register(kind: str, name: str) -> Callable[[T], T]:
    """Decorator: make a class or function known as ``name`` among the parts of a kind.

    Args:
        kind: One of ``KINDS``.
        name: What configs call it.
    """
    parts = table(kind)

    def add(part: T) -> T:
        other = parts.get(name, part)
        # A module that is imported twice, by its name and by its path, registers its parts twice.
        if getattr(other, "__qualname__", other) != getattr(part, "__qualname__", part):
            raise ReservoirError(f"the {KINDS[kind]} {name!r} is there already: {other}")
        parts[name] = part
        return part

    return add


def table(kind: str) -> dict[str, Any]:
    """All parts of a kind by name, as far as their modules have been imported."""
    return choose(kind, _TABLES, "kind of part")


def find(kind: str, name: Any) -> Any:
    """The part registered as ``name``; a part that is ready made is taken as it is."""
    return choose(name, table(kind), KINDS[kind]) if isinstance(name, str) else name


def choose(name: str, names: Mapping[str, T], what: str) -> T:
    """Return ``names[name]``, or raise an error that lists the valid names."""
    if not isinstance(name, str) or name not in names:
        raise ReservoirError(f"unknown {what} {name!r}{suggest(name, names)}")
    return names[name]


def suggest(name: Any, valid: Iterable[str]) -> str:
    """The tail of an error message: the nearest valid name and all of them."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}; valid: {', '.join(valid) or 'none'}"
