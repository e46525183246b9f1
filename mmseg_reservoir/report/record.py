"""What every record of a run needs: files that are whole, strict JSON, and versions."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import write_text


def write_results(folder: Path, results: Mapping[str, Any], rows: Iterable[Sequence[Any]]) -> None:
    """``results.json`` with everything and ``results.csv`` with one row per visit."""
    write_text(folder / "results.json", strict_json(results))
    table = io.StringIO()
    csv.writer(table).writerows(finite(list(rows)))
    write_text(folder / "results.csv", table.getvalue())


def strict_json(value: Any) -> str:
    """JSON that every reader takes: numbers that are not finite become null."""
    return json.dumps(finite(value), indent=1, default=str, allow_nan=False)


def finite(value: Any) -> Any:
    """The same value with None in place of every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
