"""What a run is: a state may only be gone on with by the run that saved it."""

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
"""Of an object in memory, which is another one in every process."""
_SHOWN = 5
_REPEATED = "config.randomness.seed"
"""A config need not name the seed of its run, which is the fact ``seed``."""
_FACTS = ("seed", "data", "stream", "options", "versions")


def run_identity(record: Mapping[str, Any], weights: str) -> dict[str, Any]:
    """All that the numbers of a run depend on, as plain JSON values.

    Args:
        record: What ``results.json`` says, of which the config, the data, the stream, the options
            with their defaults, the seed and the versions count.
        weights: A hash of the model's weights; where they were read from does not matter.
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
    instead: str = "begin anew (--overwrite, or another --work-dir)",
) -> None:
    """Refuse the state of another run; the message shows what differs, and what to do instead."""
    changes = [c for c in differences(flatten(saved), flatten(now)) if c[0] != _REPEATED]
    if not changes:
        return
    shown = "; ".join(
        f"{key} was {_short(old)}, is {_short(new)}" for key, old, new in changes[:_SHOWN]
    )
    more = f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    raise ReservoirError(
        f"{where} was saved by another run ({shown}{more}): go on with what it had, or {instead}"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
