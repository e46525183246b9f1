"""Old import paths. They work for one release, with a warning that names the new path."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

RENAMED = {
    "becotta.discriminator": "becotta.mixture",
    "becotta.variants": "becotta.inject",
    "build": "config.builder",
    "check": "datasets.check",
    "checkpoint_files": "io.checkpoints",
    "command_line": "cli.command_line",
    "files": "io.files",
    "methods.align": "methods.source",
    "methods.parts": "methods.common",
    "options": "registry",
    "portable": "snapshot",
    "presets": "config.presets",
    "resume": "runs",
    "scale": "fleet",
    "seg.inferencer": "footage.inferencer",
    "spaces": "params",
    "state_files": "io.state_files",
    "params.becotta_params": "params.selections",
    "params.norm_statistics": "params.normalization",
    "params.normalisation": "params.normalization",  # old name
    "style.distance": "style.statistics",
    "style.source_styles": "style.calibration",
    "style.view_size": "style.encoder",
}
"""New name of each renamed module or subpackage by its old name, relative to the package."""


class RenamedModules(MetaPathFinder, Loader):
    """An importer of renamed modules and subpackages by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old name, None for any other name."""
        return None if _new_name(fullname) is None else ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module in ``sys.modules`` by the renamed one."""
        old, new = module.__name__, _new_name(module.__name__)
        assert new is not None
        warnings.warn(f"{old} is now {new}: import that", DeprecationWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that exported these names before.

    Args:
        module: ``__name__`` of the module.
        names: New name by old name; new names include the module, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = f"{__package__}.{names[name]}"
        warnings.warn(
            f"{module}.{name} is now {new}: import that", DeprecationWarning, stacklevel=2
        )
        room, _, new_name = new.rpartition(".")
        return getattr(importlib.import_module(room), new_name)

    return get


def _new_name(fullname: str) -> str | None:
    package, _, name = fullname.partition(".")
    if package != __package__:
        return None
    for old, new in RENAMED.items():
        if name == old or name.startswith(f"{old}."):
            return f"{package}.{new}{name[len(old) :]}"
    return None
