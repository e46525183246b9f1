"""What command lines that read a config share. They, and seg/, are all that imports mmengine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from .errors import ReservoirError
from .options import suggest


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """The options that every test of a config has."""
    parser.add_argument("config", help="config file")
    parser.add_argument("--work-dir", help="where results go (default: work_dirs/CONFIG)")
    parser.add_argument("--seed", type=int, help="default: the config's, 0")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, default={}, help="key=value ..."
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; what mmengine's ``DictAction`` lets through becomes a clear error."""
    try:
        return parser.parse_args(argv)
    except (ValueError, AssertionError, RecursionError) as error:
        raise ReservoirError(
            f"--cfg-options takes key=value, with [a,b] or (a,b) for lists: {error}"
        ) from error


def read_config(
    path: str | Path, changes: Mapping[str, Any], known: Collection[str] = ()
) -> Config:
    """A config file with changes merged in.

    Args:
        path: The file.
        changes: From dotted keys to values.
        known: Top-level keys that may be set though the file has them not.
    """
    if not Path(path).is_file():
        raise ReservoirError(f"no config file {path}")
    cfg = Config.fromfile(path)
    valid = {*cfg, *known}
    for key in changes:
        top = key.split(".")[0]
        if top not in valid:
            raise ReservoirError(
                f"--cfg-options {key}: the config has no {top!r}{suggest(top, valid)}"
            )
    cfg.merge_from_dict(dict(changes))
    return cfg


def end_in_one_line(main: Callable[[], None]) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    try:
        main()
    except ReservoirError as error:
        # From a worker of a dataloader the message arrives below that worker's traceback.
        message = str(error).strip().splitlines()[-1].removeprefix(f"{_NAME}: ")
        print(f"error: {message}", file=sys.stderr)
        return 2
    return 0


_NAME = f"{ReservoirError.__module__}.{ReservoirError.__qualname__}"
