"""The rows of a config that is a table: what each method says over the rest.

Beside the keys of a run such a config has ``rows``, options by the name of the row, and
``with_reservoir``, the reservoir for whoever wants it::

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
    """The options of one run, without the table.

    Args:
        config: A table, or options with a method of their own.
        name: The row. A method without a row runs with what the table says for all of them. None
            if the config has its own method.
        with_reservoir: Put the reservoir around the method: the config's own ``reservoir`` if it
            has one, or else that of the table; a name puts another preset in its place.
    """
    options = copy.deepcopy(without_scope(config))
    rows = options.pop("rows", None) or {}
    plug_in = options.pop("with_reservoir", None) or {"preset": DEFAULT}
    method = config.get("method")
    # The method of a table has no type, only an optimizer.
    own = method.get("type") if isinstance(method, Mapping) else method
    if name is None:
        if rows and own is None:
            raise ReservoirError(
                f"the config is a table: choose a row of it, --method NAME, of {', '.join(rows)}"
            )
    elif own is not None:
        raise ReservoirError(
            f"the config has its own method, {own!r}: leave --method out, or make it a row, "
            f"rows=dict({own}=dict(method=dict(...)))"
        )
    elif name not in rows and name not in _methods():
        shown = f"; rows: {', '.join(rows)}" if rows else ""
        near = suggest(name, {*rows, *_methods()})
        raise ReservoirError(f"there is no method {name!r}{near}{shown}")
    else:
        row = rows.get(name) or {}
        options = _merge(options, {**row, "method": {"type": name, **row.get("method", {})}})
    if with_reservoir and options.get("reservoir") is None:
        options["reservoir"] = plug_in
    if isinstance(with_reservoir, str):
        choose(with_reservoir, PRESETS, "preset")
        written = options["reservoir"]  # options, or the name of a preset
        beside = written if isinstance(written, Mapping) else {}
        options["reservoir"] = {**beside, "preset": with_reservoir}
    return options


def row_label(name: str | None, options: Options) -> str | None:
    """What records and metafiles call a row; None for none.

    ``"eata"``, ``"eata_reservoir"`` with a published reservoir, ``"eata_robust"`` with that preset.
    """
    reservoir = options.get("reservoir")
    if name is None or reservoir is None:
        return name
    preset = reservoir.get("preset", DEFAULT) if isinstance(reservoir, Mapping) else reservoir
    return f"{name}_{'robust' if preset == 'robust' else 'reservoir'}"


def _methods() -> dict[str, Any]:
    # Not above: the methods import torch, which takes seconds, and a row needs none of them.
    from .. import methods  # noqa: F401 (registers them)

    return table("method")


def _merge(base: Options, over: Options) -> dict[str, Any]:
    """Options over others; a group of another ``type`` replaces the group, as in a preset."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            same = "type" not in below or value.get("type", below["type"]) == below["type"]
            merged[key] = _merge(below, value) if same else dict(value)
        else:
            merged[key] = value
    return merged
