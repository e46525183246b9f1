"""The identity of a run, because a state is only valid for the run that saved it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..errors import ReservoirError
from ..io.nested import differences, flatten
from .reader import without_irrelevant
from .record import strict_json

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Matches the address of an object in memory, which differs in every process."""
_SHOWN = 5
_REPEATED = "config.randomness.seed"
"""The key of the seed in a config, which is optional. The entry ``seed`` always has the seed."""
_FACTS = ("seed", "data", "stream", "options", "versions")


def run_identity(record: Mapping[str, Any], weights: str) -> dict[str, Any]:
    """Return everything that determines the numbers of a run, as plain JSON values.

    Args:
        record: Content of ``results.json``, of which config, data, stream, options, seed and
            versions are used.
        weights: Hash of the model's weights; their path does not matter.
    """
    config = without_irrelevant(record["config"])
    config.pop("load_from", None)
    facts = {name: record.get(name) for name in _FACTS}
    text = strict_json({"config": config, **facts, "weights": weights})
    return json.loads(_ADDRESS.sub("", text))


def check_identity(
    saved: Mapping[str, Any],
    now: Mapping[str, Any],
    where: object,
    instead: str = "start again (--overwrite, or another --work-dir)",
) -> None:
    """Raise an error with the differences if a state was saved by another run."""
    changes = [c for c in differences(flatten(saved), flatten(now)) if c[0] != _REPEATED]
    if not changes:
        return
    shown = "; ".join(
        f"{key} was {_short(old)}, is {_short(new)}" for key, old, new in changes[:_SHOWN]
    )
    more = f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    raise ReservoirError(
        f"{where} was saved by another run ({shown}{more}): use the values that it had, or "
        f"{instead}"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
