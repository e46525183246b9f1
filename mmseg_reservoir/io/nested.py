"""Flatten and compare nested plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values by dotted keys, such as ``a.b`` in a dict and ``c.0`` in a list."""
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {prefix.rstrip("."): value}
    flat: dict[str, Any] = {}
    for key, part in items:
        flat |= flatten(part, f"{prefix}{key}.")
    return flat


def differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values of each difference; a missing value is None."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield name, one, other
