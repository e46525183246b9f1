"""Work directories: let one process at a time write, and protect existing results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import ReservoirError, WriteError
from ..io.files import explain_disk_errors, remedy, remove_file

try:
    import fcntl
except ImportError:  # Windows has no fcntl: nothing prevents two runs in one folder
    fcntl = None  # type: ignore[assignment]

_RESULTS = ("results.json", "results.csv", "routes.jsonl")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create and lock a folder, and remove the partial files of a killed process.

    The lock ends with the process. Dataloader workers, which may live longer, do not inherit it.
    """
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise WriteError(
            f"cannot write into the work directory {folder} ({error.strerror}): {remedy(error)} "
            "with --work-dir or --out"
        ) from error
    try:
        if fcntl is not None:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise ReservoirError(
                    f"process {file.read().strip() or 'unknown'} is writing into {folder}: wait "
                    "for it, or choose another folder with --work-dir or --out"
                ) from error
        with explain_disk_errors(path):
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        for partial in folder.rglob("*.partial"):
            remove_file(partial)
        yield
    finally:
        with suppress(OSError):  # an error here must not hide an earlier one
            file.close()


def has_results(folder: Path) -> bool:
    """Return whether a run has written results into a folder."""
    return (folder / _RESULTS[0]).exists()


def remove_results(folder: Path) -> None:
    """Remove the results of a run, so that they are not mistaken for those of the next run."""
    for name in _RESULTS:
        remove_file(folder / name)


def describe_results(folder: Path) -> str:
    """Describe the results in a folder, for a message."""
    try:
        complete = json.loads((folder / _RESULTS[0]).read_text(encoding="utf-8"))["complete"]
    except (OSError, ValueError, LookupError, TypeError):
        return "results"  # damaged results, which are protected, too
    return "the results of a complete run" if complete else "the results of an unfinished run"
