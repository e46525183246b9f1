"""What command lines that read a config share. They, and seg/, are all that imports mmengine."""

from __future__ import annotations

import argparse
import difflib
import logging
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from .errors import ReservoirError
from .files import shipped
from .options import suggest
from .stop_signals import StopSignals, stop_code


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """The options that every test of a config has."""
    parser.add_argument("config", help="config file, or the name of a shipped one")
    parser.add_argument("--work-dir", help="where results go (default: work_dirs/CONFIG)")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="auto",
        metavar="STATE",
        help="go on with a run that was killed: with the newest state in the work directory, from "
        "the start if there is none, or with the state of this file",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace what the work directory holds"
    )
    parser.add_argument("--seed", type=int, help="default: the config's, 0")
    parser.add_argument(
        "--cfg-options", nargs="+", action=KeyValue, default={}, help="key=value ..."
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


class KeyValue(DictAction):
    """mmengine's ``key=value``, with the spaces that belong to a value."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Spaces around a key are none of it."""
        pairs = [re.sub(r"^\s*([^=]*?)\s*=", r"\1=", value) for value in values]
        super().__call__(parser, namespace, pairs, option_string)

    @staticmethod
    def _parse_iterable(val: str) -> Any:
        # mmengine removes every space. Those inside a word are kept from it as another character.
        compact = re.sub(r"\s*([\[\](),])\s*", r"\1", val.strip())
        return _with_spaces(DictAction._parse_iterable(compact.replace(" ", _SPACE)))


_SPACE = "\N{NO-BREAK SPACE}"


def _with_spaces(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_spaces, value))
    return value.replace(_SPACE, " ") if isinstance(value, str) else value


def image_size(word: str) -> tuple[int, int]:
    """The type of an option: ``1024x512`` is a width and a height."""
    match = re.fullmatch(r"(\d+)x(\d+)", word)
    if match is None:
        raise argparse.ArgumentTypeError(f"{word!r} is no size: write WIDTHxHEIGHT, like 1024x512")
    return int(match[1]), int(match[2])


def check_seed(seed: Any) -> None:
    """Refuse what is no seed for numpy and torch."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ReservoirError(f"a seed is a whole number from 0 to 2**32 - 1, got {seed!r}")


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
    return merge_options(_read(find_config(path)), changes, known)


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


def _read(path: Path) -> Config:
    try:
        return Config.fromfile(path)
    except (SyntaxError, FileNotFoundError, ImportError, NameError, KeyError, TypeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReservoirError(f"the config {path} cannot be read ({reason}): mend it") from error


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


def end_in_one_line(main: Callable[[], int | None]) -> int:
    """Run; a user's mistake ends in one line and exit code 2, a signal in two lines.

    Ctrl-C has the exit code 130, SIGTERM 143. Else it is what ``main`` returns, 0 for nothing.
    """
    signals = StopSignals(at_once=True)
    try:
        with signals:
            return main() or 0
    except (ReservoirError, OSError) as error:  # OSError: a full disk, a folder that went away
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, SystemExit) as error:
        code = 128 + signals.caught if signals.caught else stop_code(error)
        if code is None:  # the exit of a parser
            raise
        print("\ninterrupted: the run is not finished", file=sys.stderr)
        print("what was written so far is in its work directory", file=sys.stderr)
        return code


def one_line(error: Exception) -> str:
    """The message of an error, whatever lines it is made of.

    That of a worker of a dataloader arrives below the worker's traceback.
    """
    name = f"{ReservoirError.__module__}.{ReservoirError.__qualname__}: "
    return " ".join(str(error).rpartition(name)[-1].split())


def show_log() -> None:
    """Let what the package logs be seen where no runner of mmengine does that."""
    logger = logging.getLogger("mmseg_reservoir")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
