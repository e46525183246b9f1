"""What command lines share. Of the package, it and seg/ are all that imports mmengine.

Nothing here imports torch or mmseg, and mmengine is imported when a config is read: so ``--help``
and mistakes in the options are answered at once.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import logging
import re
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ReservoirError
from .files import remedy, shipped
from .options import suggest
from .stop_signals import StopSignals, stop_code

if TYPE_CHECKING:
    from mmengine.config import Config


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


def read_config(
    path: str | Path, changes: Mapping[str, Any], known: Collection[str] = ()
) -> Config:
    """A config file (see :func:`find_config`) with changes by dotted keys merged in.

    The ``known`` keys may be set at the top level though the file has them not. Nothing is imported
    yet of what it names, see :func:`import_custom_modules`.
    """
    return merge_options(read_file(find_config(path)), changes, known)


def merge_options(cfg: Config, changes: Mapping[str, Any], known: Collection[str] = ()) -> Config:
    """A config with changes by dotted keys merged in; see :func:`read_config`."""
    valid = {*cfg, *known}
    for key in changes:
        top = key.split(".")[0]
        if top not in valid:
            raise ReservoirError(
                f"--cfg-options {key}: the config has no {top!r}{suggest(top, valid)}"
            )
    return set_options(cfg, changes)


def set_options(cfg: Config, changes: Mapping[str, Any]) -> Config:
    """A config with changes by dotted keys, whatever the keys are."""
    try:
        cfg.merge_from_dict(dict(changes))
    except (AttributeError, KeyError, TypeError) as error:
        raise ReservoirError(
            f"--cfg-options {', '.join(changes)}: a key leads to nothing that can be changed "
            f"({type(error).__name__}: {error}): replace a list as a whole, such as "
            "test_cfg.domains=[fog,night]"
        ) from error
    return cfg


def read_file(path: Path) -> Config:
    """Read a config file; one that cannot be read is a clear error."""
    from mmengine.config import Config

    with _one_reason(path):
        return Config.fromfile(path, import_custom_modules=False)


def import_custom_modules(cfg: Config) -> None:
    """Import what a config names in ``custom_imports``: custom parts, and in ours mmseg."""
    from mmengine.utils import import_modules_from_strings

    with _one_reason(cfg.filename):
        import_modules_from_strings(**(cfg.get("custom_imports") or {"imports": None}))


@contextmanager
def _one_reason(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (SyntaxError, FileNotFoundError, ImportError, NameError, KeyError, TypeError) as error:
        missing = _missing_module(error) if isinstance(error, ImportError) else None
        if missing is not None:
            raise ReservoirError(
                f"the config {path} imports {missing}, which is not installed: {_advice(missing)}"
            ) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReservoirError(f"the config {path} cannot be read ({reason}): mend it") from error


def _missing_module(error: BaseException | None) -> str | None:
    """Return the module that an import did not find; mmengine raises other errors from it."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            return error.name.split(".")[0]
        error = error.__cause__ or error.__context__
    return None


def _advice(module: str) -> str:
    if module.startswith("mm"):  # mmdet, mmpretrain, ...
        return f"pip install {module}"
    return "install it, or add the folder of a module of your own to PYTHONPATH"


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


THIRD_PARTY_WARNINGS = (
    ("pkg_resources is deprecated as an API", "mmengine|importlib"),
    ("``build_loss`` would be deprecated soon", "mmseg"),
    ("Default ``avg_non_ignore`` is False", "mmseg"),
)
"""Of the libraries below, which no user can act on: how they begin, and modules they come from."""


def ignore_third_party_warnings() -> None:
    """Let this process not show them, unless Python was told to show warnings (``python -W``)."""
    for message, module in THIRD_PARTY_WARNINGS if not sys.warnoptions else ():
        warnings.filterwarnings("ignore", re.escape(message), module=rf"({module})\b")


_WORKER_ENDED = "is killed by signal: Terminated"
"""From torch's error about a worker of a dataloader."""


def end_in_one_line(main: Callable[[], int | None]) -> int:
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
