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
    """A formatter that keeps the lines of the description and adds missing defaults."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        if "default" in text or not isinstance(default, (list, int, float, str, PurePath)):
            return text
        if isinstance(default, bool) or default in ([], "", argparse.SUPPRESS):
            return text
        words = map(str, default) if isinstance(default, list) else [str(default)]
        return f"{text} (default: {' '.join(words)})".strip()


class Verb:
    """A verb of the command ``reservoir``. Call it with its arguments to run it.

    Args:
        doc: Docstring of its file, with a summary line and examples.
        run: Function from parsed arguments to the exit code; None is 0.
        *options: Options, names of shared options, or functions that add options to a parser.
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
        """Run the verb and return the exit code: 2 for a mistake of the user, with one line."""
        return run_cli(lambda: self.run(self.parse(argv, prog)))

    def parse(
        self, argv: Sequence[str] | None = None, prog: str | None = None
    ) -> argparse.Namespace:
        """Return the parsed command line. Invalid ``--cfg-options`` are a clear error."""
        parser = argparse.ArgumentParser(prog, description=self.doc, formatter_class=HelpFormatter)
        # Intermixed, so that CONFIG --seed 1 CHECKPOINT is valid.
        parse = parser.parse_intermixed_args
        for option in self.options:
            if isinstance(option, (str, Option)):
                (SHARED[option] if isinstance(option, str) else option).add_to(parser)
            else:
                option(parser)
                parse = parser.parse_args  # options that add commands cannot be intermixed
        try:
            return parse(argv)
        except ReservoirError:  # before ValueError, its base class
            raise
        except (ValueError, AssertionError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            what = "a value has brackets in the wrong order" if deep else error
            raise ReservoirError(
                f"--cfg-options takes key=value, with [a,b] or (a,b) for lists: {what}"
            ) from error


_WORKER_ENDED = "is killed by signal: Terminated"
"""Part of torch's error about a terminated dataloader worker."""


def run_cli(main: Callable[[], Any]) -> int:
    """Run ``main``, and return the exit code. Print one line for a mistake, two for a signal.

    The code is 2 for a user's mistake, 130 for Ctrl-C, 143 for SIGTERM, and otherwise the result
    of ``main`` (0 for None).
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
        # A signal to all processes also ends dataloader workers, and torch reports this first.
        caught = signals.caught or (_WORKER_ENDED in str(error) and signal.SIGTERM)
        code = 128 + caught if caught else stop_code(error)
        if code is None:  # a parser's exit, or an error of the program
            raise
        print("\ninterrupted: the run is not finished", file=sys.stderr)
        print("what was written so far is in its work directory", file=sys.stderr)
        return code


def warn(text: str) -> None:
    """Print a warning in one line."""
    print(f"warning: {text}", file=sys.stderr)


def show_log() -> None:
    """Print the package's log messages, if no mmengine runner does."""
    logger = logging.getLogger("mmseg_reservoir")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
