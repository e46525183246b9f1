"""What all verbs share: parse the options, and report mistakes in one line.

``--help`` and mistakes in the options are answered at once: nothing here imports torch or mmseg.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from ..errors import ReservoirError, ignore_third_party_warnings, one_line
from ..io.files import remedy
from ..runs.stop_signals import StopSignals, stop_code
from .options import SHARED, Option


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keep the lines of the description, and show defaults that the help does not name."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        if "default" in text or not isinstance(default, (list, int, float, str, PurePath)):
            return text
        if isinstance(default, bool) or default in ([], "", argparse.SUPPRESS):
            return text
        words = map(str, default) if isinstance(default, list) else [str(default)]
        return f"{text} (default: {' '.join(words)})".strip()


class Verb:
    """A verb of the command ``reservoir``: call it with its arguments to run it.

    Args:
        doc: Docstring of its file: what it does in one line, and then examples.
        run: Does the work, and returns the exit code, None for 0.
        *options: Options, names of shared options, or functions that add to a parser.
    """

    def __init__(
        self,
        doc: str,
        run: Callable[[argparse.Namespace], int | None],
        *options: str | Option | Callable[[argparse.ArgumentParser], None],
    ) -> None:
        self.doc, self.run, self.options = doc, run, options
        self.summary = doc.splitlines()[0]

    def __call__(self, argv: Sequence[str] | None = None, prog: str | None = None) -> int:
        """Run; a mistake of the user ends in one line and exit code 2."""
        return run_cli(lambda: self.run(self.parse(argv, prog)))

    def parse(
        self, argv: Sequence[str] | None = None, prog: str | None = None
    ) -> argparse.Namespace:
        """Parse a command line; every mistake in ``--cfg-options`` is a clear error."""
        parser = argparse.ArgumentParser(prog, description=self.doc, formatter_class=HelpFormatter)
        # Intermixed, so that CHECKPOINT may follow an option: CONFIG --seed 1 CHECKPOINT.
        parse = parser.parse_intermixed_args
        for option in self.options:
            if isinstance(option, (str, Option)):
                (SHARED[option] if isinstance(option, str) else option).add_to(parser)
            else:
                option(parser)
                parse = parser.parse_args  # it may add commands, which cannot be intermixed
        try:
            return parse(argv)
        except ReservoirError:  # a ValueError, too
            raise
        except (ValueError, AssertionError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            what = "a value has brackets in the wrong order" if deep else error
            raise ReservoirError(
                f"--cfg-options takes key=value, with [a,b] or (a,b) for lists: {what}"
            ) from error


_WORKER_ENDED = "is killed by signal: Terminated"
"""From torch's error about a worker of a dataloader."""


def run_cli(main: Callable[[], Any]) -> int:
    """Run; a user's mistake ends in one line and exit code 2, a signal in two lines.

    Ctrl-C has the exit code 130, SIGTERM 143. Otherwise it is what ``main`` returns, 0 for None.
    """
    signals = StopSignals(at_once=True)
    try:
        with signals, warnings.catch_warnings():
            ignore_third_party_warnings()
            return main() or 0
    except (ReservoirError, OSError) as error:  # OSError: a full disk, a folder that was removed
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


def warn(text: str) -> None:
    """Print a warning in one line."""
    print(f"warning: {text}", file=sys.stderr)


def show_log() -> None:
    """Print what the package logs, where no runner of mmengine does."""
    logger = logging.getLogger("mmseg_reservoir")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
