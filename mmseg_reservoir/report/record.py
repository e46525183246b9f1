"""What every record of a run needs: files that are whole, and versions."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Write a file such that a reader, or a crash, never sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_results(folder: Path, results: Mapping[str, Any], rows: Iterable[Sequence[Any]]) -> None:
    """``results.json`` with everything and ``results.csv`` with one row per visit."""
    write_whole(folder / "results.json", json.dumps(results, indent=1, default=str))
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    write_whole(folder / "results.csv", table.getvalue())


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
