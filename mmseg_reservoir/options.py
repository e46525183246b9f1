"""Turning names and options of a config into objects, with errors that list what is valid."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .errors import ReservoirError

T = TypeVar("T")


def choose(name: str, table: Mapping[str, T], what: str) -> T:
    """Return ``table[name]``, or raise an error that lists the valid names."""
    if name not in table:
        raise ReservoirError(f"unknown {what} {name!r}{suggest(name, table)}")
    return table[name]


def construct(factory: Callable[..., T], options: Mapping[str, Any], where: str, **fixed: Any) -> T:
    """Call ``factory(**options, **fixed)``; an option that it does not take is a clear error.

    Args:
        factory: The class or function that the options are for.
        options: What the user wrote.
        where: The place in the config, for the message (for example ``reservoir.router``).
        **fixed: Arguments that the program supplies, so that the user need not (and cannot).
    """
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    valid = [
        n
        for n, p in parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and n not in fixed
    ]
    for name in options:
        if name not in valid and not takes_any:
            raise ReservoirError(f"{where} has no option {name!r}{suggest(name, valid)}")
    required = [n for n in valid if parameters[n].default is inspect.Parameter.empty]
    missing = [n for n in required if n not in options]
    if missing:
        raise ReservoirError(f"{where} needs the option {missing[0]!r}")
    return factory(**options, **fixed)


def suggest(name: str, valid: Iterable[str]) -> str:
    """The tail of an error message: the nearest valid name and all of them."""
    valid = sorted(valid)
    near = difflib.get_close_matches(name, valid, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}; valid: {', '.join(valid) or 'none'}"
