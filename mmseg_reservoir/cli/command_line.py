"""What command lines share. Of the package, it and seg/ are all that imports mmengine.

Nothing here imports torch or mmseg, and mmengine is imported when a config is read: so ``--help``
and mistakes in the options are answered at once.
"""

from __future__ import annotations

import argparse
import ast
import logging
import re
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ReservoirError, ignore_third_party_warnings, one_line
from ..io.files import remedy
from ..runs.stop_signals import StopSignals, stop_code

if TYPE_CHECKING:
    pass


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
    parser.add_argument("--seed", type=int, help="default: the config's, else one is chosen")
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


class KeyValue(argparse.Action):
    """mmengine's ``key=value`` of ``--cfg-options``, with the spaces that belong to a value."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add to the options that were given before; spaces around a key are none of it."""
        given = dict(getattr(namespace, self.dest, None) or {})
        for word in values:
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"{word!r} has no =")
            given[key.strip()] = _parse_value(value)
        setattr(namespace, self.dest, given)


_DICT = re.compile(r"(^|[\[(,])\s*(\{|dict\()")
"""A value that is a dict, or holds one; mmengine would cut it at its commas."""


def _literal(value: str) -> Any:
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError) as error:
        raise ReservoirError(
            f"--cfg-options: cannot read the value {value!r}: write a dict as "
            '\'{"name": "dusk"}\', with quotes around every word'
        ) from error


_SPACE = "\N{NO-BREAK SPACE}"


def _parse_value(text: str) -> Any:
    from mmengine.config import DictAction

    if _DICT.search(text):
        return _literal(text)
    # mmengine removes every space. Those inside a word are kept from it as another character.
    compact = re.sub(r"\s*([\[\](),])\s*", r"\1", text.strip())
    return _with_spaces(DictAction._parse_iterable(compact.replace(" ", _SPACE)))


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
    except ReservoirError:  # which is a ValueError
        raise
    except (ValueError, AssertionError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = "a value has brackets in the wrong order" if deep else error
        raise ReservoirError(
            f"--cfg-options takes key=value, with [a,b] or (a,b) for lists: {what}"
        ) from error


_WORKER_ENDED = "is killed by signal: Terminated"
"""From torch's error about a worker of a dataloader."""


def run_cli(main: Callable[[], int | None]) -> int:
    """Run; a user's mistake ends in one line and exit code 2, a signal in two lines.

    Ctrl-C has the exit code 130, SIGTERM 143. Else it is what ``main`` returns, 0 for nothing.
    """
    signals = StopSignals(at_once=True)
    try:
        with signals, warnings.catch_warnings():
            ignore_third_party_warnings()
            return main() or 0
    except (ReservoirError, OSError) as error:  # OSError: a full disk, a folder that went away
        todo = "" if isinstance(error, ReservoirError) else f": {remedy(error)}"
        print(f"error: {one_line(error)}{todo}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, SystemExit, RuntimeError) as error:
        # A signal for all processes also ends workers of a dataloader, which torch reports first.
        caught = signals.caught or (_WORKER_ENDED in str(error) and signal.SIGTERM)
        code = 128 + caught if caught else stop_code(error)
        if code is None:  # the exit of a parser, or an error of the program
            raise
        print("\ninterrupted: the run is not finished", file=sys.stderr)
        print("what was written so far is in its work directory", file=sys.stderr)
        return code


def show_log() -> None:
    """Let what the package logs be seen where no runner of mmengine does that."""
    logger = logging.getLogger("mmseg_reservoir")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
