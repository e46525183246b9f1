"""Choose parts by their options and check these; the parts are built later."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ReservoirError
from ..registry import check_options, find, new_name, parameters_of, table

Options = Mapping[str, Any]


@dataclass(frozen=True)
class PartSpec:
    """A registered part and its checked options. Nothing is built yet.

    Args:
        name: Registered name of the part.
        factory: The class or function that builds it.
        options: The options as the user wrote them.
        injected: Arguments that the program supplies when it builds the part.
        defaults: Values of this run for options that the user left out.
    """

    name: str
    factory: Any
    options: Options
    injected: frozenset[str] = frozenset()
    defaults: Options = field(default_factory=dict)

    def build(self, **injected: Any) -> Any:
        """Build the part with those injected arguments that its constructor accepts."""
        accepted = {name: value for name, value in injected.items() if self.accepts(name)}
        return self.factory(**{**self.defaults, **accepted, **self.options})

    def resolved_options(self) -> dict[str, Any]:
        """Return the name and all options of this run, including defaults."""
        values = {
            name: parameter.default
            for name, parameter in parameters_of(self.factory).items()
            if parameter.default is not inspect.Parameter.empty and name not in self.injected
        }
        return {"type": self.name, **values, **self.defaults, **self.options}

    def accepts(self, name: str) -> bool:
        """Return whether the constructor has an argument of this name."""
        return name in parameters_of(self.factory)


def pick(
    kind: str,
    options: Options | str | None,
    where: str,
    default: str = "",
    injected: Iterable[str] = (),
    defaults: Options | None = None,
) -> PartSpec:
    """Choose a part by ``dict(type=name, **options)`` or by its name, and check its options.

    Args:
        kind: One of ``KINDS``.
        options: The options as the user wrote them.
        where: Their path in the config, for messages.
        default: The name if the options have none.
        injected: Arguments that the program supplies; they are not options.
        defaults: Values of this run for options that the user left out, if the part has them.
    """
    if options and not isinstance(options, (str, Mapping)):
        raise ReservoirError(f"{where} must be a name or dict(type=NAME, ...), got {options!r}")
    options = {"type": options} if isinstance(options, str) else dict(options or {})
    name = options.pop("type", default)
    if not name:
        raise ReservoirError(f"{where} has no type: write dict(type=NAME, ...), got {options!r}")
    if not isinstance(name, str) and not callable(name):
        raise ReservoirError(f"{where}.type must be a name or a class, got {name!r}")
    name = new_name(name, table(kind))
    factory = find(kind, name)
    options = check_options(factory, options, where, injected)
    valid = parameters_of(factory)
    unset = {n: v for n, v in (defaults or {}).items() if n in valid and n not in options}
    return PartSpec(name, factory, options, frozenset(injected), unset)


def without_scope(options: Any) -> Any:
    """Return options as plain dicts and lists, without the ``_scope_`` of mmengine.

    mmengine adds that key to groups that a config inherits from a package
    (``_base_ = "mmseg::..."``). It names the registry of a type and is not an option.
    """
    if isinstance(options, Mapping):
        return {name: without_scope(v) for name, v in options.items() if name != "_scope_"}
    if isinstance(options, list):
        return [without_scope(value) for value in options]
    return options
