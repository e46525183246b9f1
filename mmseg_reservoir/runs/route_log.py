"""The routes of an unfinished run: ``routes.jsonl``, one line per route.

Only new lines are written, so that a long run does not write all routes again at every visit. A
complete run has its routes in ``results.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from ..io.files import append_bytes, explain_disk_errors, remove_file, write_text
from .visits import finite

FILE = "routes.jsonl"


class RouteLog:
    """The file ``routes.jsonl`` of one run.

    Args:
        folder: The work directory.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.count = 0
        """Routes of this run that are in the file."""
        self._size = 0  # bytes of the routes

    def append(self, routes: Sequence[Mapping[str, Any]]) -> None:
        """Append routes, and wait until they are on the disk.

        Content after this run's routes is removed, such as a line that a full disk cut off.
        """
        if not routes:
            return
        data = _lines(routes).encode()
        self._size = append_bytes(self.path, data, self._size)
        self.count += len(routes)

    def restore(self, count: int) -> list[dict[str, Any]]:
        """Return the first ``count`` routes of the file, and remove the others from it."""
        lines = _whole_lines(self.path)[:count]
        if len(lines) < count:
            raise ReservoirError(
                f"{self.path} has {len(lines)} of the {count} routes that belong to the saved "
                "state: restore the file, or start again with --overwrite"
            )
        self.count, self._size = count, sum(map(len, lines))
        if self.path.is_file():
            with explain_disk_errors(self.path):
                os.truncate(self.path, self._size)
        return [json.loads(line) for line in lines]

    def remove(self) -> None:
        """Remove the file."""
        remove_file(self.path)


def read_routes(folder: Path) -> list[dict[str, Any]]:
    """Return the routes in the ``routes.jsonl`` of a work directory."""
    return [json.loads(line) for line in _whole_lines(folder / FILE)]


def take_over_routes(before: Path, folder: Path) -> None:
    """Copy the routes of a saved run into the ``routes.jsonl`` of the run that resumes it.

    Args:
        before: Work directory of the saved run. If this run is complete, its ``results.json`` has
            the routes.
        folder: Work directory of the run that resumes. It may be the same.
    """
    if (before / FILE).is_file():
        if before.resolve() != folder.resolve():
            write_text(folder / FILE, (before / FILE).read_text(encoding="utf-8"))
    elif (before / "results.json").is_file():
        results = json.loads((before / "results.json").read_text(encoding="utf-8"))
        write_text(folder / FILE, _lines(results.get("routes", ())))


def _lines(routes: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(finite(route), allow_nan=False)}\n" for route in routes)


def _whole_lines(path: Path) -> list[bytes]:
    """Return all complete lines with their line ends; an empty list without a file."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    return [line for line in lines if line.endswith(b"\n")]
