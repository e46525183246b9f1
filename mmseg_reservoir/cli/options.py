"""Options that several verbs have: the same name, meaning and help everywhere."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ReservoirError


class KeyValue(argparse.Action):
    """mmengine's ``key=value`` of ``--cfg-options``, with the spaces that belong to a value."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add to the options that were given before; spaces around a key are ignored."""
        options = dict(getattr(namespace, self.dest, None) or {})
        for word in values:
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"{word!r} has no =")
            options[key.strip()] = _parse_value(value)
        setattr(namespace, self.dest, options)


_DICT = re.compile(r"(^|[\[(,])\s*(\{|dict\()")
"""A value that is or holds a dict; mmengine would cut it at its commas."""
_SPACE = "\N{NO-BREAK SPACE}"


def _parse_value(text: str) -> Any:
    from mmengine.config import DictAction

    if _DICT.search(text):
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError) as error:
            raise ReservoirError(
                f"--cfg-options: cannot read the value {text!r}: write a dict as "
                '\'{"name": "dusk"}\', with quotes around every word'
            ) from error
    # mmengine removes every space. Another character protects those inside a word.
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


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option: a whole number that is not less."""

    def whole_number(word: str) -> int:
        if (number := int(word)) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, got {number}")
        return number

    return whole_number


def check_seed(seed: Any) -> None:
    """Refuse a value that cannot seed numpy and torch."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ReservoirError(f"a seed is a whole number from 0 to 2**32 - 1, got {seed!r}")


SHARED: dict[str, dict[str, Any]] = {
    "config": {"help": "config file, or the name of a bundled one"},
    "runs": {"nargs": "+", "metavar": "[NAME=]RUN", "help": "work directories or their parents"},
    "--work-dir": {"metavar": "DIR", "help": "write results here (default: work_dirs/CONFIG)"},
    "--out": {"type": Path, "metavar": "DIR", "help": "write results here"},
    "--resume": {
        "nargs": "?",
        "const": "auto",
        "metavar": "STATE",
        "help": "resume a killed run from the newest state in the work directory, or from this "
        "file; start from the beginning if there is none",
    },
    "--overwrite": {"action": "store_true", "help": "replace existing results"},
    "--seed": {"type": int, "metavar": "N", "help": "seed all random numbers"},
    "--cfg-options": {
        "nargs": "+",
        "action": KeyValue,
        "default": {},
        "metavar": "KEY=VALUE",
        "help": "change options of the config, such as reservoir.k_max=8",
    },
    "--start-from": {"metavar": "FOLDER", "help": "start from a saved reservoir"},
    "--frozen": {
        "action": "store_true",
        "help": "with --start-from: only route to its experts, adapt nothing",
    },
    "--workers": {"type": at_least(1), "metavar": "N", "help": "use N processes"},
    "--rounds": {"type": at_least(1), "metavar": "N", "help": "visit each condition N times"},
    "--markdown": {"type": Path, "metavar": "FILE", "help": "also write a Markdown file"},
    "--json": {"type": Path, "metavar": "FILE", "help": "also write every number as JSON"},
    "--model": {"help": "config file, or a name of mmseg's model zoo"},
    "--weights": {
        "metavar": "FILE",
        "help": "read these weights (default: those of the zoo, or load_from of the config)",
    },
    "--every": {"type": int, "default": 1, "metavar": "N", "help": "take every N-th frame"},
    "--size": {
        "type": image_size,
        "metavar": "WxH",
        "help": "resize frames to this width and height in pixels (default: the config's)",
    },
    "--source-images": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "calibrate on these images of the source domain",
    },
    "--labels": {
        "choices": ("trainids", "labelids", "colours"),
        "help": "write labels and frames in ACDC's folders, ready to train on",
    },
    "--save-every": {"type": at_least(1), "metavar": "N", "help": "save the state every N frames"},
    "--device": {"help": "run on this device (default: a GPU if there is one)"},
    "--ray": {"metavar": "ADDRESS", "help": "use this Ray cluster (default: this machine)"},
    "--jobs": {"type": int, "metavar": "N", "help": "use N cores of this machine (default: all)"},
}


def share(parser: argparse.ArgumentParser, *names: str, **changes: Any) -> None:
    """Add shared options to a parser, with changes such as another default."""
    for name in names:
        parser.add_argument(name, **{**SHARED[name], **changes})


def add_test_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every test of a config has."""
    share(parser, "config", "--work-dir", "--resume", "--overwrite", "--cfg-options")
    share(parser, "--start-from", "--frozen")
    seed = SHARED["--seed"]["help"] + " (default: the config's, else a random one)"
    share(parser, "--seed", help=seed)


def add_footage_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every verb that segments footage."""
    share(parser, "--weights", "--start-from", "--every", "--size", "--source-images")
    share(parser, "--labels", "--device", "--cfg-options")
    share(parser, "--seed", default=0)
