"""Options of parts: names, types and values are checked before anything runs."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ReservoirError
from ..registry import find, suggest

T = TypeVar("T")


Options = Mapping[str, Any]


@dataclass(frozen=True)
class PartSpec:
    """A part that has been chosen, with options that it is known to take; not made yet.

    Args:
        name: The name that it is registered as.
        factory: What makes it.
        options: What the user wrote.
        given: Arguments that the program supplies.
    """

    name: str
    factory: Callable[..., Any]
    options: Options
    given: frozenset[str] = frozenset()

    def make(self, **given: Any) -> Any:
        """Make it. Of ``given`` it gets what it asks for; what the user wrote goes before."""
        return self.factory(**(self._wanted(given) | dict(self.options)))

    def complete(self, **given: Any) -> dict[str, Any]:
        """The name and all options with their values in this run, those that are defaults too.

        Args:
            **given: Values that take the place of defaults, of options that it has.
        """
        values = {"type": self.name}
        for name, parameter in parameters_of(self.factory).items():
            if parameter.default is not inspect.Parameter.empty and name not in self.given:
                values[name] = parameter.default
        wanted = {n: v for n, v in self._wanted(given).items() if n not in self.given}
        return values | wanted | dict(self.options)

    def accepts(self, name: str) -> bool:
        """Whether it has an argument of this name."""
        return name in parameters_of(self.factory)

    def _wanted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if self.accepts(name)}


def pick(
    kind: str,
    options: Options | str | None,
    where: str,
    default: str = "",
    given: Iterable[str] = (),
) -> PartSpec:
    """Choose a part by ``dict(type=name, **options)``, or by its name, and check its options.

    Args:
        kind: One of ``KINDS``.
        options: What the user wrote.
        where: The place in the config, for messages.
        default: The name if the user wrote none.
        given: Arguments that the program supplies, so that the user need not (and cannot).
    """
    options = {"type": options} if isinstance(options, str) else dict(options or {})
    name = options.pop("type", default)
    if not name:
        raise ReservoirError(f"{where} has no type: write dict(type=NAME, ...), got {options!r}")
    factory = find(kind, name)
    check_options(factory, options, where, given)
    return PartSpec(name, factory, options, frozenset(given))


def construct(factory: Callable[..., T], options: Options, where: str, **given: Any) -> T:
    """Call ``factory(**options, **given)``; an option that it does not take is a clear error."""
    check_options(factory, options, where, given)
    return factory(**options, **given)


def check_options(
    factory: Callable[..., Any], options: Options, where: str, given: Iterable[str] = ()
) -> None:
    """Refuse options that a factory does not take, lacks, or cannot be meant.

    Args:
        factory: The class or function that the options are for.
        options: What the user wrote.
        where: The place in the config, for the message (for example ``reservoir.router``).
        given: Arguments that the program supplies, so that the user need not (and cannot).
    """
    parameters = parameters_of(factory)
    given = set(given)
    valid = [name for name in parameters if name not in given]
    for name, value in options.items():
        if name not in valid:
            raise ReservoirError(f"{where} has no option {name!r}{suggest(name, valid)}")
        _check_value(value, parameters[name].annotation, f"{where}.{name}")
        if parameters[name].annotation in _NAMED:
            find(_NAMED[parameters[name].annotation], value)
    for name in valid:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise ReservoirError(f"{where} needs the option {name!r}")


def without_scope(options: Any) -> Any:
    """Return options as plain dicts and lists, without the ``_scope_`` of mmengine.

    mmengine adds that key to the groups that a config inherits from a package
    (``_base_ = "mmseg::..."``). It names where a type is registered, and is no option.
    """
    if isinstance(options, Mapping):
        return {name: without_scope(v) for name, v in options.items() if name != "_scope_"}
    if isinstance(options, list):
        return [without_scope(value) for value in options]
    return options


def parameters_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The named arguments of a function or class.

    A constructor's ``**options`` stands for the arguments of the one that it overrides, so that
    these need not be repeated in every subclass.
    """
    arguments: dict[str, inspect.Parameter] = {}
    for function in _constructors(factory):
        parameters = inspect.signature(function).parameters.values()
        for p in parameters:
            if p.name != "self" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                arguments.setdefault(p.name, p)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return arguments


def _constructors(factory: Callable[..., Any]) -> Iterable[Callable[..., Any]]:
    """The function, or the constructors of a class from its own to those of its bases."""
    if not isinstance(factory, type):
        return [factory]
    own = [vars(cls)["__init__"] for cls in factory.__mro__ if "__init__" in vars(cls)]
    return own if own[0] is not object.__init__ else [lambda: None]


_NAMED = {
    "str | Statistic": "statistic",
    "str | Distance": "distance",
    "str | ExpertInit": "init",
}


"""Annotations of options that name a part, and its kind."""


_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str, os.PathLike),
}


def _check_value(value: Any, annotation: Any, where: str) -> None:
    """Compare a value with a plain annotation: numbers, strings, ``Literal``, each or None."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if text.endswith(" | None"):
        if value is None:
            return
        text = text.removesuffix(" | None")
    if text.startswith("Literal["):
        names = typing.get_args(eval(text, {"Literal": typing.Literal}))
        if value not in names:
            raise ReservoirError(
                f"{where} must be one of {', '.join(map(str, names))}, got {value!r}"
            )
    elif text in _PLAIN:
        is_plain = isinstance(value, _PLAIN[text]) and isinstance(value, bool) == (text == "bool")
        if not is_plain:
            raise ReservoirError(f"{where} must be of type {text}, got {value!r}")
