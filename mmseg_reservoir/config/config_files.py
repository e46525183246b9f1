"""Find and read config files, and apply the options of a command line to them.

mmengine is imported only when a config is read, so that invalid options are reported without delay.
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
    """Return the ``reservoir`` of a config with ``--start-from`` and ``--frozen`` applied."""
    if reservoir is None:
        raise ReservoirError(
            "--start-from and --frozen need a reservoir, and this config has none: choose a config "
            "with one, or set reservoir=PRESET"
        )
    options = {"preset": reservoir} if isinstance(reservoir, str) else dict(reservoir)
    start = {} if start_from is None else {"start_from": start_from}
    return {**options, **start, "frozen": frozen}


def read_config(
    path: str | Path, changes: Mapping[str, Any], optional: Collection[str] = ()
) -> Config:
    """Read a config file and apply changes by dotted keys, see :func:`merge_options`.

    The modules of ``custom_imports`` are not imported (see :func:`import_custom_modules`).
    """
    return merge_options(read_file(find_config(path)), changes, optional)


def merge_options(
    cfg: Config, changes: Mapping[str, Any], optional: Collection[str] = ()
) -> Config:
    """Return a config with changes. It must have their top-level keys, except optional ones."""
    valid = {*cfg, *optional}
    for key in changes:
        top = key.split(".")[0]
        if top not in valid:
            raise ReservoirError(
                f"--cfg-options {key}: the config has no {top!r}{suggest(top, valid)}"
            )
    return set_options(cfg, changes)


def set_options(cfg: Config, changes: Mapping[str, Any]) -> Config:
    """Apply changes to a config without a check of their top-level keys, and return it."""
    try:
        cfg.merge_from_dict(dict(changes))
    except (AttributeError, KeyError, TypeError) as error:
        raise ReservoirError(
            f"--cfg-options {', '.join(changes)}: a key cannot be set "
            f"({type(error).__name__}: {error}): replace a list as a whole, such as "
            "test_cfg.domains=[fog,night]"
        ) from error
    return cfg


def read_file(path: Path) -> Config:
    """Read a config file; raise a :class:`ReservoirError` if it is invalid."""
    from mmengine.config import Config

    with _explain(path):
        return Config.fromfile(path, import_custom_modules=False)


def import_custom_modules(cfg: Config) -> None:
    """Import the modules of a config's ``custom_imports``: custom parts, and mmseg."""
    from mmengine.utils import import_modules_from_strings

    with _explain(cfg.filename):
        import_modules_from_strings(**(cfg.get("custom_imports") or {"imports": None}))


@contextmanager
def _explain(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (SyntaxError, FileNotFoundError, ImportError, NameError, KeyError, TypeError) as error:
        missing = _missing_module(error) if isinstance(error, ImportError) else None
        if missing is not None:
            advice = "install it, or add the folder of your module to PYTHONPATH"
            if missing.startswith("mm"):  # mmdet, mmpretrain, ...
                advice = f"pip install {missing}"
            raise ReservoirError(
                f"the config {path} imports {missing}, which is not installed: {advice}"
            ) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReservoirError(f"invalid config {path}: {reason}") from error


def _missing_module(error: BaseException | None) -> str | None:
    """Return the module that is missing, from the cause of an error of mmengine."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            return error.name.split(".")[0]
        error = error.__cause__ or error.__context__
    return None


def find_config(path: str | Path) -> Path:
    """Return the config file at a path, else the bundled config of that name.

    ``configs/minicity/segformer-tiny_tent.py`` and ``minicity/segformer-tiny_tent.py`` name the
    same bundled file, so that commands of a checkout work from anywhere.
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
        f"no config file {path}, neither here nor among the bundled ones in {configs}{hint}"
    )
