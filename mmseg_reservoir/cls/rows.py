"""Configs that are tables with one row per method.

Such a config also has ``rows``, the options of each row by its name, and ``with_reservoir``, the
options of the reservoir for rows that run with one::

    method = dict(optimizer=dict(type="Adam", lr=1e-3))
    with_reservoir = dict(preset="robust")
    rows = dict(tent=dict(), eata=dict(method=dict(d_margin=0.4)))
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..config.presets import DEFAULT, PRESETS
from ..config.schema import Options, without_scope
from ..errors import ReservoirError
from ..registry import choose, suggest, table


def choose_row(
    config: Options, name: str | None, with_reservoir: bool | str = False
) -> dict[str, Any]:
    """Return the options of one run of a table.

    Args:
        config: A table, or options with a method.
        name: Name of a row, or of a method without a row, which gets the options of all rows. None
            if the config has a method.
        with_reservoir: Whether to run with the config's ``reservoir``, or else with the table's
            ``with_reservoir``. The name of a preset replaces their preset. Defaults to False.
    """
    options = copy.deepcopy(without_scope(config))
    rows = options.pop("rows", None) or {}
    table_reservoir = options.pop("with_reservoir", None) or {"preset": DEFAULT}
    method = config.get("method")
    # In a table, ``method`` has an optimizer but no type.
    own_method = method.get("type") if isinstance(method, Mapping) else method
    if name is None:
        if rows and own_method is None:
            raise ReservoirError(
                f"the config is a table: choose a row of it, --method NAME, of {', '.join(rows)}"
            )
    elif own_method is not None:
        raise ReservoirError(
            f"the config has its own method, {own_method!r}: leave --method out, or make it a row, "
            f"rows=dict({own_method}=dict(method=dict(...)))"
        )
    elif name not in rows and name not in _methods():
        hint = f"; rows: {', '.join(rows)}" if rows else ""
        near = suggest(name, {*rows, *_methods()})
        raise ReservoirError(f"there is no method {name!r}{near}{hint}")
    else:
        row = rows.get(name) or {}
        options = _merge(options, {**row, "method": {"type": name, **row.get("method", {})}})
    if with_reservoir and options.get("reservoir") is None:
        options["reservoir"] = table_reservoir
    if isinstance(with_reservoir, str):
        choose(with_reservoir, PRESETS, "preset")
        reservoir = options["reservoir"]  # options or the name of a preset
        others = reservoir if isinstance(reservoir, Mapping) else {}
        options["reservoir"] = {**others, "preset": with_reservoir}
    return options


def row_label(name: str | None, options: Options) -> str | None:
    """Return the name of a row in records and metafiles; None without a row.

    It is ``"eata"``, ``"eata_robust"`` with the preset robust, else ``"eata_reservoir"``.
    """
    reservoir = options.get("reservoir")
    if name is None or reservoir is None:
        return name
    preset = reservoir.get("preset", DEFAULT) if isinstance(reservoir, Mapping) else reservoir
    return f"{name}_{'robust' if preset == 'robust' else 'reservoir'}"


def _methods() -> dict[str, Any]:
    # Imported here, because the methods import torch, which takes seconds.
    from .. import methods  # noqa: F401 (registers them)

    return table("method")


def _merge(base: Options, over: Options) -> dict[str, Any]:
    """Return merged options. A group with another ``type`` replaces the group, as in presets."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            same = "type" not in below or value.get("type", below["type"]) == below["type"]
            merged[key] = _merge(below, value) if same else dict(value)
        else:
            merged[key] = value
    return merged
