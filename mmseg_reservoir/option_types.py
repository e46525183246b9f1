"""Types of options, as annotations of constructors, and the check of values against them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Interval

from .errors import ReservoirError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Momentum = Annotated[float, Interval(ge=0, lt=1)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
PositiveFraction = Annotated[float, Interval(gt=0, le=1)]


@dataclass(frozen=True)
class Registered:
    """Annotation metadata: a string value must be the name of a registered part of this kind."""

    kind: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return a schema that refuses unknown names, see :func:`find`."""
        from pydantic_core import core_schema

        from .registry import find

        def check(value: Any) -> Any:
            find(self.kind, value)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


def check_value(value: Any, annotation: Any, where: str) -> Any:
    """Return a value that fits its annotation, with numpy's numbers as Python's.

    A value of another type, range or choice is an error. Annotations with types other than plain
    Python values are not checked.
    """
    expected = _describe(annotation)
    if expected is None:
        return value
    value = plain_numbers(value)
    from pydantic import ValidationError

    forms = [_frozen(value), *([os.fspath(value)] if isinstance(value, os.PathLike) else [])]
    for form in forms:
        try:
            _validator(annotation).validate_python(form)
            return value
        except ValidationError as error:
            reasons = [detail.get("ctx", {}).get("error") for detail in error.errors()]
    for reason in reasons:
        if isinstance(reason, ReservoirError):  # raised by Registered
            raise reason
    raise ReservoirError(f"{where} must be {expected}, got {value!r}")


@functools.cache
def _validator(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(annotation, config=ConfigDict(strict=True, arbitrary_types_allowed=True))


def plain_numbers(value: Any) -> Any:
    """Return a value with numpy's numbers as Python's, also inside lists and dicts."""
    if type(value) in (list, tuple):
        return type(value)(map(plain_numbers, value))
    if type(value) is dict:
        return {name: plain_numbers(item) for name, item in value.items()}
    return value.item() if isinstance(value, Real) and hasattr(value, "item") else value


def _frozen(value: Any) -> Any:
    """Return lists as tuples, because an option may be written as either."""
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


_PLAIN = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a string",
    Path: "a path",
    Mapping: "a group of options",
    Callable: "a function",
    NoneType: "None",
}
"""Name of each plain type in messages."""


def _describe(annotation: Any) -> str | None:
    """Describe the values that an annotation allows; None if a type is not plain.

    A string in ``Annotated`` replaces the generated words.
    """
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Annotated:
        words = [part for part in annotation.__metadata__ if isinstance(part, str)]
        text = _describe(args[0])
        if words and text:
            return words[0]
        return text and text + "".join(map(_range, annotation.__metadata__))
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}" if len(args) > 1 else repr(args[0])
    if origin in (Union, UnionType):
        texts = [_describe(arg) for arg in args]
        return None if None in texts else ", or ".join(dict.fromkeys(texts))  # type: ignore
    if origin in (Sequence, tuple):
        item = _describe(args[0]) if args else ""
        count = f"{len(args)} values" if origin is tuple and args[-1] is not ... else "a list"
        return None if item is None else f"{count}, each {item}" if item else count
    return _PLAIN.get(origin)


def _range(metadata: Any) -> str:
    gt, ge, lt, le = (getattr(metadata, name, None) for name in ("gt", "ge", "lt", "le"))
    if (gt, ge) != (None, None) != (lt, le):
        low = f"[{ge:g}" if gt is None else f"({gt:g}"
        return f" in {low}, {le:g}]" if lt is None else f" in {low}, {lt:g})"
    words = {"above": gt, "of at least": ge, "below": lt, "of at most": le}
    return "".join(f" {word} {bound:g}" for word, bound in words.items() if bound is not None)
