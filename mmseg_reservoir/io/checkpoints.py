"""Read checkpoints safely, and write them completely or not at all.

A pickle can run any code while it is read. So every pickle is read with torch's allow-list
(``weights_only=True``); there is no unsafe fallback.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import ReservoirError
from .files import atomic_write, read_tensors

CONTAINERS = ("state_dict", "model", "model_state_dict")
"""Possible keys of the weights in a checkpoint with other content."""

_SIGNATURES = (b"PK", b"\x80")  # torch's zip format, and its format before torch 1.6
_DTYPES = (np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_)


def read_weights(path: str | os.PathLike) -> dict[str, Tensor]:
    """Return the weights in a file as tensors on the CPU."""
    return find_weights(read_checkpoint(path), path)


def read_checkpoint(path: str | os.PathLike, map_location: Any = "cpu") -> dict[str, Any]:
    """Return the content of a checkpoint file; of ``.safetensors``, ``{"state_dict": ...}``.

    Args:
        path: The file.
        map_location: As for :func:`torch.load`. A ``.safetensors`` file only supports a device.
            Defaults to the CPU.

    Raises:
        ReservoirError: If the file is missing, damaged or no checkpoint, or holds Python objects
            that are not on the allow-list.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ReservoirError(f"there is no checkpoint file {path}: check the path")
    if path.suffix == ".safetensors":
        weights, _ = read_tensors(path)
        if isinstance(map_location, (str, torch.device)):
            weights = {name: tensor.to(map_location) for name, tensor in weights.items()}
        return {"state_dict": weights}
    checkpoint = _read_pickle(path, map_location)
    if not isinstance(checkpoint, dict):
        raise ReservoirError(
            f"{path} holds a {type(checkpoint).__name__} instead of a dictionary of weights: use "
            'a file that was saved as {"state_dict": model.state_dict()}'
        )
    return checkpoint


def write_checkpoint(path: str | os.PathLike, content: Mapping[str, Any]) -> Path:
    """Write all of a ``.pth`` file or nothing."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:  # torch hides the disk error that caused it
                cause = error.__context__
                raise cause if isinstance(cause, OSError) else error from None

    return atomic_write(path, write)


def find_weights(
    checkpoint: Mapping[str, Any], where: str | os.PathLike = "the checkpoint"
) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint, from one of `CONTAINERS` or from itself.

    Args:
        checkpoint: Content of a file.
        where: Its file, for the error.
    """
    inside = (checkpoint.get(name) for name in CONTAINERS)
    state = next((part for part in inside if isinstance(part, Mapping)), checkpoint)
    weights = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    if not weights:
        raise ReservoirError(
            f"{where} holds no weights, neither itself nor under {', '.join(CONTAINERS)}: "
            'use a file that was saved as {"state_dict": model.state_dict()}'
        )
    return weights


class Misfits(NamedTuple):
    """Differences between saved weights and a model, by name and shape."""

    missing: list[str]
    reshaped: list[str]
    unexpected: list[str]


def find_misfits(weights: Mapping[str, Any], expected: Mapping[str, Any]) -> Misfits:
    """Compare weights with a model, both given as tensors or as shapes by name.

    Counters of BatchNorm are ignored, because old torch did not save them, and nothing reads them.
    """
    saved, wanted = (
        {
            name: tuple(getattr(value, "shape", value))
            for name, value in tensors.items()
            if not name.endswith("num_batches_tracked")
        }
        for tensors in (weights, expected)
    )
    described = {
        name: f"{name}: {saved.get(name, 'missing')} in the checkpoint, {shape} in the model"
        for name, shape in wanted.items()
        if saved.get(name) != shape
    }
    return Misfits(
        [text for name, text in described.items() if name not in saved],
        [text for name, text in described.items() if name in saved],
        [name for name in saved if name not in wanted],
    )


def allow_mmengine_checkpoints() -> None:
    """Add the scalars that MMEngine's message hub stores to torch's allow-list.

    This needs MMEngine and torch 2.6. Files that only have weights are readable without it.
    """
    if torch.torch_version.TorchVersion(torch.__version__) < (2, 6):  # type: ignore[operator]
        return
    try:
        from mmengine.logging import HistoryBuffer
    except ImportError:
        return
    # numpy's two constructors, under the module names of numpy 1 and 2.
    rebuild = {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64().__reduce__()[0]}
    constructors: list[Any] = [
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in rebuild.items()
        for core in ("core", "_core")
    ]
    classes = [HistoryBuffer, np.ndarray, np.dtype, *(type(np.dtype(dtype)) for dtype in _DTYPES)]
    statistic = (_history_statistic, "builtins.getattr")
    torch.serialization.add_safe_globals([*classes, *constructors, statistic])


def _history_statistic(owner: type, name: str) -> Any:
    """Return a statistic of a pickled HistoryBuffer, which uses ``getattr`` for it.

    The real ``getattr`` would let a malicious file reach every attribute of an allowed class.
    """
    from mmengine.logging import HistoryBuffer

    if owner is not HistoryBuffer or name not in ("min", "max", "current", "mean"):
        raise pickle.UnpicklingError(f"GLOBAL builtins.getattr of {name!r} is not allowed")
    return getattr(owner, name)


def _read_pickle(path: Path, map_location: Any) -> Any:
    with path.open("rb") as file:
        start = file.read(16)
    if not start.startswith(_SIGNATURES):
        raise ReservoirError(
            f"{path} is not a checkpoint (it begins with {start!r}): perhaps a web page or a Git "
            "LFS pointer was saved in its place; download it again"
        )
    allow_mmengine_checkpoints()
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise ReservoirError(
            f"{path} was not loaded: it is damaged, or holds Python objects that could run code "
            f"({_summary(error)}). If you trust it, save its weights alone: torch.save("
            '{"state_dict": torch.load(path, weights_only=False)["state_dict"]}, "weights.pth")'
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        raise ReservoirError(
            f"{path} could not be read ({_summary(error)}): if the download was cut short, "
            "download it again"
        ) from error


def _summary(error: Exception) -> str:
    """Return the reason of an error in one line, without torch's advice to load unsafely."""
    cause = error.__context__ or error  # torch adds that advice to the unpickler's message
    line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return line.split(" was not an allowed global")[0][:200].rstrip(".")
