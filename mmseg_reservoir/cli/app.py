"""The command ``reservoir``: find the verb and run it."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from .. import __version__
from ..errors import ReservoirError
from ..registry import choose
from .command_line import Verb

VERBS = {
    "Adapt and test": ("test", "classify", "adapt", "fleet", "sweep"),
    "Read results": ("summarize", "report", "figures"),
    "Manage experts": ("experts",),
    "Prepare data and models": ("check", "convert", "minicity", "warmup", "train", "train-digits"),
    "Try it out": ("demo", "demo-cls"),
}
"""The verbs by group. Each verb is a file in this folder."""

OLD_COMMANDS = {
    "reservoir-adapt": "adapt",
    "reservoir-check-dataset": "check",
    "reservoir-convert-checkpoint": "convert",
    "reservoir-experts": "experts",
    "reservoir-figures": "figures",
    "reservoir-fleet": "fleet",
    "reservoir-make-minicity": "minicity",
    "reservoir-report": "report",
    "reservoir-summarize": "summarize",
    "reservoir-sweep": "sweep",
    "reservoir-test": "test",
    "reservoir-test-cls": "classify",
    "reservoir-train": "train",
    "reservoir-warmup": "warmup",
}
"""Verb of each command of earlier releases."""


def main(argv: list[str] | None = None) -> int:
    """Run the verb in ``argv``, or print all verbs, and return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        "reservoir",
        "reservoir VERB [OPTIONS]",
        "Adapt models while they are tested, with one expert per domain.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if argv and not argv[0].startswith("-"):
        try:
            verb = find_verb(argv[0])
        except ReservoirError as error:
            parser.error(str(error))
        return verb(argv[1:], f"reservoir {argv[0]}")
    parser.add_argument("--version", action="version", version=__version__)
    parser.epilog = overview()
    parser.parse_args(argv)
    parser.print_help()
    return 0


def old_command() -> int:
    """Run the verb for a command of an earlier release, which is the name of this process."""
    name = Path(sys.argv[0]).name.removesuffix(".exe")
    verb = OLD_COMMANDS[name]
    print(f"DeprecationWarning: {name} is now: reservoir {verb}", file=sys.stderr)
    return find_verb(verb)()


def find_verb(name: str) -> Verb:
    """Import and return the verb of this name."""
    modules = {verb: verb.replace("-", "_") for group in VERBS.values() for verb in group}
    module = choose(name, modules, "verb")
    return importlib.import_module(f"{__package__}.{module}").main


def overview() -> str:
    """Return a text with all verbs in groups, and the first line of their help."""
    lines = []
    for group, verbs in VERBS.items():
        lines += [f"{group}:", *(f"  {verb:<14}{find_verb(verb).summary}" for verb in verbs), ""]
    return "\n".join([*lines, "Run 'reservoir VERB --help' for the options of a verb."])
