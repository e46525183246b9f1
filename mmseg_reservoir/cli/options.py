"""Options that several verbs have: the same name, meaning and help everywhere."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ReservoirError
from ..registry import new_name


class KeyValue(argparse.Action):
    """An action for ``key=value`` as in mmengine, but spaces within values are kept."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add options to those before. Spaces around a key are ignored."""
        options = dict(getattr(namespace, self.dest, None) or {})
        for word in values:
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"{word!r} has no =")
            options[key.strip()] = _parse_value(value)
        setattr(namespace, self.dest, options)


_DICT = re.compile(r"(^|[\[(,])\s*(\{|dict\()")
"""Pattern of a value with a dict, which mmengine would split at its commas."""
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
    # mmengine removes all spaces. Those inside a word are replaced by another character.
    compact = re.sub(r"\s*([\[\](),])\s*", r"\1", text.strip())
    return _with_spaces(DictAction._parse_iterable(compact.replace(" ", _SPACE)))


def _with_spaces(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_spaces, value))
    return value.replace(_SPACE, " ") if isinstance(value, str) else value


def image_size(word: str) -> tuple[int, int]:
    """Return width and height of an option such as ``1024x512``."""
    match = re.fullmatch(r"(\d+)x(\d+)", word)
    if match is None:
        raise argparse.ArgumentTypeError(f"{word!r} is no size: write WIDTHxHEIGHT, like 1024x512")
    return int(match[1]), int(match[2])


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option for whole numbers of at least ``least``."""

    def whole_number(word: str) -> int:
        if (number := int(word)) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, got {number}")
        return number

    return whole_number


def check_seed(seed: Any) -> None:
    """Raise an error if a value cannot seed numpy and torch."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ReservoirError(f"a seed is a whole number from 0 to 2**32 - 1, got {seed!r}")


class Option(NamedTuple):
    """An option of a verb, as arguments of ``ArgumentParser.add_argument``."""

    names: list[str]
    keywords: dict[str, Any]

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(*self.names, **self.keywords)


def option(words: str, help: str, **keywords: Any) -> Option:
    """Return an option, such as ``option("--every N", "take every N-th frame", type=int)``."""
    names = words.split()
    if len(names) > 1:
        keywords["metavar"] = names.pop()
    return Option(names, {"help": help, **keywords})


def switch(name: str, help: str) -> Option:
    """Return an option without a value."""
    return option(name, help, action="store_true")


def shared(name: str, **changes: Any) -> Option:
    """Return a shared option, with changes such as another default."""
    names, keywords = SHARED[name]
    return Option(names, {**keywords, **changes})


_SHARED = (
    option("config", "config file, or the name of a bundled one"),
    option("runs", "work directories or their parents", nargs="+", metavar="[NAME=]RUN"),
    option("--work-dir DIR", "write results here (default: work_dirs/CONFIG)"),
    option("--out DIR", "write results here", type=Path),
    option(
        "--resume STATE",
        "resume a killed run from the newest state in the work directory, or from this file; "
        "start from the beginning without one",
        nargs="?",
        const="auto",
    ),
    switch("--overwrite", "replace existing results"),
    option("--seed N", "seed all random numbers", type=int),
    option(
        "--cfg-options KEY=VALUE",
        "change options of the config, such as reservoir.k_max=8",
        nargs="+",
        action=KeyValue,
        default={},
    ),
    option("--start-from FOLDER", "start from a saved reservoir"),
    switch("--frozen", "with --start-from: only route to its experts, adapt nothing"),
    option("--workers N", "use N processes", type=at_least(1)),
    option("--rounds N", "visit each condition N times", type=at_least(1)),
    option("--markdown FILE", "also write a Markdown file", type=Path),
    option("--json FILE", "also write every number as JSON", type=Path),
    option("--model", "config file, or a name of mmseg's model zoo"),
    option(
        "--weights FILE",
        "read these weights (default: those of the zoo, or load_from of the config)",
    ),
    option("--every N", "take every N-th frame", type=int, default=1),
    option(
        "--size WxH",
        "resize frames to this width and height in pixels (default: the config's)",
        type=image_size,
    ),
    option("--source-images FOLDER", "calibrate on these images of the source domain", type=Path),
    option(
        "--labels",
        "write labels and frames in ACDC's folders, ready to train on",
        choices=("trainids", "labelids", "colors"),
        type=lambda word: new_name(word, ("colors",)),
    ),
    option("--save-every N", "save the state every N frames", type=at_least(1)),
    option("--device", "run on this device (default: a GPU if there is one)"),
    option("--ray ADDRESS", "use this Ray cluster (default: this machine)"),
    option("--jobs N", "use N cores of this machine (default: all)", type=int),
)
SHARED = {each.names[0]: each for each in _SHARED}
"""Options of several verbs, by name."""

_CONFIG_SEED = "seed all random numbers (default: the config's, else a random one)"
TEST = (
    *("config", "--work-dir", "--resume", "--overwrite", "--cfg-options"),
    *("--start-from", "--frozen", shared("--seed", help=_CONFIG_SEED)),
)
"""Options of every verb that tests a config."""
FOOTAGE = (
    *("--weights", "--start-from", "--every", "--size", "--source-images"),
    *("--labels", "--device", "--cfg-options", shared("--seed", default=0)),
)
"""Options of every verb that segments footage."""
