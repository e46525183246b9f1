"""Config files: found, read, and changed by options of a command line.

mmengine is imported when a config is read, so mistakes in the options are answered at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ReservoirError
from ..io.files import shipped
from ..registry import suggest

if TYPE_CHECKING:
    from mmengine.config import Config


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
