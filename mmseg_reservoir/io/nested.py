"""Nested plain values: flatten them, and compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values by dotted keys: ``a.b`` for ``{"a": {"b": 1}}``, ``c.0`` for a list."""
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


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each key with the two values that differ; a missing value is None."""
    for key in {**one, **other}:
        if one.get(key) != other.get(key):
            yield key, one.get(key), other.get(key)
