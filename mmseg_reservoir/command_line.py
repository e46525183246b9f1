"""What command lines that read a config share. They, and seg/, are all that imports mmengine."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from .errors import ReservoirError
from .files import shipped
from .options import suggest


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """The options that every test of a config has."""
    parser.add_argument("config", help="config file, or the name of a shipped one")
    parser.add_argument("--work-dir", help="where results go (default: work_dirs/CONFIG)")
    parser.add_argument("--seed", type=int, help="default: the config's, 0")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, default={}, help="key=value ..."
    )


def add_warm_start(parser: argparse.ArgumentParser) -> None:
    """The options that let a run begin with a saved reservoir."""
    parser.add_argument(
        "--start-from",
        metavar="FOLDER",
        help="go on with a saved reservoir, WORK_DIR/reservoir of an earlier run",
    )
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="with --start-from: only route to its experts, adapt nothing",
    )


def warm_start(reservoir: Any, start_from: str | None, frozen: bool) -> dict[str, Any]:
    """The ``reservoir`` of a config, with what the options of :func:`add_warm_start` say."""
    if reservoir is None:
        raise ReservoirError(
            "--start-from and --frozen are for a run with a reservoir, and this one has none: take "
            "a config, or add an option, that has one"
        )
    options = {"preset": reservoir} if isinstance(reservoir, str) else dict(reservoir)
    start = {} if start_from is None else {"start_from": start_from}
    return {**options, **start, "frozen": frozen}


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; what mmengine's ``DictAction`` lets through becomes a clear error."""
    try:
        # Intermixed, so that CHECKPOINT may stand behind an option: CONFIG --seed 1 CHECKPOINT.
        return parser.parse_intermixed_args(argv)
    except (ValueError, AssertionError, RecursionError) as error:
        raise ReservoirError(
            f"--cfg-options takes key=value, with [a,b] or (a,b) for lists: {error}"
        ) from error


def read_config(
    path: str | Path, changes: Mapping[str, Any], known: Collection[str] = ()
) -> Config:
    """A config file (see :func:`find_config`) with changes by dotted keys merged in.

    The ``known`` keys may be set at the top level though the file has them not.
    """
    return merge_options(Config.fromfile(find_config(path)), changes, known)


def merge_options(cfg: Config, changes: Mapping[str, Any], known: Collection[str] = ()) -> Config:
    """A config with changes by dotted keys merged in; see :func:`read_config`."""
    valid = {*cfg, *known}
    for key in changes:
        top = key.split(".")[0]
        if top not in valid:
            raise ReservoirError(
                f"--cfg-options {key}: the config has no {top!r}{suggest(top, valid)}"
            )
    cfg.merge_from_dict(dict(changes))
    return cfg


def find_config(path: str | Path) -> Path:
    """A config file: the one at this path, else the shipped one of this name.

    ``configs/minicity/segformer-tiny_tent.py`` and ``minicity/segformer-tiny_tent.py`` name the
    same shipped file, so that commands of a checkout work from anywhere.
    """
    path = Path(path)
    if path.is_file():
        return path
    configs = shipped("configs")
    named = configs / (path.relative_to("configs") if path.parts[:1] == ("configs",) else path)
    if not path.is_absolute() and named.is_file():
        return named
    names = [file.relative_to(configs).as_posix() for file in configs.glob("[!_]*/**/*.py")]
    near = difflib.get_close_matches(path.as_posix().removeprefix("configs/"), names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ReservoirError(
        f"no config file {path}, neither here nor among the shipped ones in {configs}{hint}"
    )


def end_in_one_line(main: Callable[[], None]) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    try:
        main()
    except ReservoirError as error:
        # From a worker of a dataloader the message arrives below that worker's traceback.
        name = f"{ReservoirError.__module__}.{ReservoirError.__qualname__}"
        message = str(error).strip().splitlines()[-1].removeprefix(f"{name}: ")
        print(f"error: {message}", file=sys.stderr)
        return 2
    return 0
