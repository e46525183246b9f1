"""Register parts by kind and name, also from custom files, and check their options.

Every part that a config can choose (a method, a router, a statistic, ...) is registered under a
name, by this package or by a file that the config imports (``custom_imports``)::

    @register("router", "nearest")
    class NearestRouter(Router):
        def __init__(self, k_max: Count = 16, radius: Positive = 1.0) -> None: ...

The annotations of a constructor are the schema of its options. They are checked in configs and in
calls from Python alike.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import typing
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .errors import ReservoirError
from .option_types import check_value

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
    "init": "initialization of experts",
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
"""Kinds of parts, and their names in messages."""


RENAMED_OPTIONS: dict[str, str] = {
    "colours": "colors",  # old name
    "regulariser": "regularizer",  # old name
    "standardise": "standardize",  # old name
}
"""New name of each renamed option, value and registered part. Old names still work."""


_TABLES: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}


def register(kind: str, name: str) -> Callable[[T], T]:
    """Return a decorator that registers a class or function by its name in configs.

    ``kind`` is one of ``KINDS``.
    """
    parts = table(kind)

    def add(part: T) -> T:
        other = parts.get(name, part)
        # A module that is imported by name and by path registers its parts twice.
        if getattr(other, "__qualname__", other) != getattr(part, "__qualname__", part):
            raise ReservoirError(f"the {KINDS[kind]} {name!r} is already registered: {other}")
        parts[name] = checked(part) if isinstance(part, type) else part
        return part

    return add


def table(kind: str) -> dict[str, Any]:
    """Return the parts of a kind by name. Parts of modules that are not imported are missing."""
    return choose(kind, _TABLES, "kind of part")


def find(kind: str, name: Any) -> Any:
    """Return the part registered as ``name``, or ``name`` itself if it is not a string."""
    if not isinstance(name, str):
        return name
    parts = table(kind)
    return choose(new_name(name, parts), parts, KINDS[kind])


def choose(name: str, names: Mapping[str, T], what: str) -> T:
    """Return ``names[name]``, or raise an error that lists the valid names."""
    if not isinstance(name, str) or name not in names:
        raise ReservoirError(f"unknown {what} {name!r}{suggest(name, names)}")
    return names[name]


def suggest(name: Any, valid: Iterable[str]) -> str:
    """Return the end of an error message: the most similar valid name, and all valid names."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}; valid: {', '.join(valid) or 'none'}"


def new_name(name: str, valid: Iterable[str]) -> str:
    """Return the new name of a renamed option, value or part, with a warning; else ``name``."""
    new = RENAMED_OPTIONS.get(name)
    if new is None or new not in valid or name in valid:
        return name
    warnings.warn(f"{name!r} is now {new!r}: write that", DeprecationWarning, stacklevel=2)
    return new


def checked(factory: T) -> T:
    """Decorate a class or function so that calls check their arguments against the annotations.

    The constructor of a class checks, so subclasses that inherit it check, too.
    """
    function: Any = factory.__init__ if isinstance(factory, type) else factory  # type: ignore[misc]
    if function is object.__init__:
        return factory
    signature = inspect.signature(function).parameters.values()
    names = [p.name for p in signature if p.kind is p.POSITIONAL_OR_KEYWORD]
    options_of = functools.cache(lambda: parameters_of(factory))  # type: ignore[arg-type]

    @functools.wraps(function)
    def check_and_call(*args: Any, **options: Any) -> Any:
        valid = options_of()
        options = {new_name(name, valid): value for name, value in options.items()}
        where = type(args[0]).__name__ if isinstance(factory, type) else function.__name__

        def plain(name: str, value: Any) -> Any:
            if name not in valid:
                return value
            return check_value(value, valid[name].annotation, f"{where}.{name}")

        args = (*map(plain, names, args), *args[len(names) :])
        return function(*args, **{name: plain(name, value) for name, value in options.items()})

    if not isinstance(factory, type):
        return check_and_call  # type: ignore[return-value]
    factory.__init__ = check_and_call  # type: ignore[misc]
    return factory


def check_options(
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    where: str,
    injected: Iterable[str] = (),
) -> dict[str, Any]:
    """Check the names and values of options, and return them with old names replaced.

    Args:
        factory: The class or function that the options are for.
        options: The options as the user wrote them.
        where: Their place in the config, for messages (for example ``reservoir.router``).
        injected: Arguments that the program supplies; they are not options.
    """
    parameters = parameters_of(factory)
    valid = [name for name in parameters if name not in injected]
    options = {new_name(name, valid): value for name, value in options.items()}
    for name, value in options.items():
        if name not in valid:
            raise ReservoirError(f"{where} has no option {name!r}{suggest(name, valid)}")
        options[name] = check_value(value, parameters[name].annotation, f"{where}.{name}")
    for name in valid:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise ReservoirError(f"{where} needs the option {name!r}")
    return options


def construct(
    factory: Callable[..., T], options: Mapping[str, Any], where: str, **injected: Any
) -> T:
    """Check options, then call ``factory(**options, **injected)``."""
    return factory(**check_options(factory, options, where, injected), **injected)


def parameters_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the named arguments of a function or class, with evaluated annotations.

    If a constructor has ``**options``, the arguments of the constructor that it overrides are
    included.
    """
    arguments: dict[str, inspect.Parameter] = {}
    for function in _constructors(factory):
        parameters = inspect.signature(function).parameters.values()
        for p in parameters:
            if p.name != "self" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                arguments.setdefault(p.name, p.replace(annotation=_evaluated(p, factory)))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return arguments


def _constructors(factory: Callable[..., Any]) -> Iterable[Callable[..., Any]]:
    """Return the function, or the constructors of a class, then those of its bases."""
    if not isinstance(factory, type):
        return [factory]
    own = [vars(cls)["__init__"] for cls in factory.__mro__ if "__init__" in vars(cls)]
    return own if own[0] is not object.__init__ else [lambda: None]


def _evaluated(parameter: inspect.Parameter, factory: Any) -> Any:
    """Return an annotation as a type; ``Any`` if it has names for type checkers only."""
    factory = getattr(factory, "func", factory)  # the function of a partial
    # A dataclass has the annotations of its bases, which may be in other modules.
    bases = factory.__mro__ if isinstance(factory, type) else (inspect.unwrap(factory),)
    names = ChainMap(*(vars(sys.modules.get(base.__module__, typing)) for base in bases))
    holder = type("", (), {"__annotations__": {"value": parameter.annotation}})
    try:
        return typing.get_type_hints(holder, {}, names, include_extras=True)["value"]
    except (NameError, TypeError):
        return Any
