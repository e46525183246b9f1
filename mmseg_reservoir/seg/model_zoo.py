"""Models of mmseg's zoo by their names: config and weights, from its packaged metafiles."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any

import mmseg
import yaml

from ..errors import ReservoirError

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it was built
_ZOO = Path(mmseg.__file__).parent / ".mim"


def find_in_zoo(name: str) -> tuple[Path, str]:
    """The config file of a model, and the address of its weights."""
    models = _models()
    if name not in models:
        near = difflib.get_close_matches(name, models, n=3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise ReservoirError(
            f"{name!r} is no config file, none of ours, and no model of mmseg's zoo{hint}"
        )
    model = models[name]
    if not model.get("Weights"):
        raise ReservoirError(f"mmseg's zoo has no weights of {name}: give weights=FILE")
    return _ZOO / model["Config"], model["Weights"]


@cache
def _models() -> dict[str, dict[str, Any]]:
    """All models by name; those in metafiles that the package lacks are left out."""
    index = _ZOO / "model-index.yml"
    if not index.is_file():
        raise ReservoirError(
            f"mmseg has no {index}, by which names of models are found: install mmsegmentation as "
            "a package, or give a config file and weights"
        )
    files = [_ZOO / name for name in _read(index)["Import"]]
    metafiles = [_read(file) for file in files if file.is_file()]
    return {model["Name"]: model for file in metafiles for model in file.get("Models") or []}


def _read(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)
