"""From names and options to objects: one table per kind of part, and checks before anything runs.

Every part that a config can choose (a method, a router, a statistic, ...) is registered under a
name, by this package or by a user's own file that the config imports (``custom_imports``)::

    @register("router", "nearest")
    class NearestRouter(Router): ...
"""

from __future__ import annotations

import difflib
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import ReservoirError

T = TypeVar("T")
Options = Mapping[str, Any]

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


@dataclass(frozen=True)
class Choice:
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

    def asks_for(self, name: str) -> bool:
        """Whether it has an argument of this name."""
        return name in parameters_of(self.factory)

    def _wanted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if self.asks_for(name)}


def pick(
    kind: str,
    options: Options | str | None,
    where: str,
    default: str = "",
    given: Iterable[str] = (),
) -> Choice:
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
    return Choice(name, factory, options, frozenset(given))


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


def suggest(name: Any, valid: Iterable[str]) -> str:
    """The tail of an error message: the nearest valid name and all of them."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}; valid: {', '.join(valid) or 'none'}"


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
