"""Reading checkpoints safely, and refusing those that do not fit the model.

A pickle can run any code while it is read, so nothing here ever reads one without torch's
allow-list (``weights_only=True``); there is no unsafe fallback.
"""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import torch
from mmengine.dist import barrier, is_main_process
from mmengine.logging import HistoryBuffer, print_log
from mmengine.model import is_model_wrapper
from mmengine.runner.checkpoint import CheckpointLoader
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mmseg_reservoir.errors import ReservoirError

_STATISTICS = ("min", "max", "current", "mean")
_DTYPES = (np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_)
_SIGNATURES = (b"PK", b"\x80")  # torch's zip format, and its format before torch 1.6


def allow_mmengine_checkpoints() -> None:
    """Put what MMEngine's message hub stores on torch's allow-list: logged scalars as numpy.

    Needs torch 2.6; with an older one such checkpoints stay unreadable, weights alone do not.
    """
    if torch.torch_version.TorchVersion(torch.__version__) < (2, 6):
        return
    # numpy's two constructors, under the module names of numpy 1 and 2.
    rebuild = {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64().__reduce__()[0]}
    constructors = [
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in rebuild.items()
        for core in ("core", "_core")
    ]
    dtypes = [type(np.dtype(dtype)) for dtype in _DTYPES]
    torch.serialization.add_safe_globals(
        [
            HistoryBuffer,
            (_history_statistic, "builtins.getattr"),
            np.ndarray,
            np.dtype,
            *dtypes,
            *constructors,
        ]
    )


def _history_statistic(owner: type, name: str) -> Any:
    """Stand in for ``getattr``: pickled HistoryBuffers use it, but only for their statistics.

    The real one would hand a malicious file every attribute of every allowed class.
    """
    if owner is not HistoryBuffer or name not in _STATISTICS:
        raise pickle.UnpicklingError(f"GLOBAL builtins.getattr of {name!r} is not allowed")
    return getattr(owner, name)


def load(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a ``.pth`` or ``.safetensors`` checkpoint from a file or an http(s) address.

    Args:
        path: The file or address. Downloads are kept in torch's hub folder.
        map_location: As in :func:`torch.load`.

    Returns:
        The checkpoint as it was saved; a ``.safetensors`` file as ``{"state_dict": ...}``.

    Raises:
        ReservoirError: If the file is missing, is no checkpoint, is damaged, or holds Python
            objects that are not on the allow-list.
    """
    if str(path).startswith(("http://", "https://")):
        path = _download(str(path))
    path = Path(path).expanduser()
    if not path.is_file():
        raise ReservoirError(f"There is no checkpoint file {path}: check the path.")
    if path.suffix == ".safetensors":
        return load_from_safetensors(path, map_location)
    with path.open("rb") as file:
        start = file.read(16)
    if not start.startswith(_SIGNATURES):
        raise ReservoirError(
            f"{path} is not a checkpoint (it begins with {start!r}): perhaps a web page or a Git "
            "LFS pointer was saved in its place. Download it again."
        )
    allow_mmengine_checkpoints()
    try:
        checkpoint = torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise ReservoirError(
            f"{path} was not loaded: it is damaged, or holds Python objects that could run code "
            f"({_summary(error)}). If you trust it, save its weights alone: torch.save("
            '{"state_dict": torch.load(path, weights_only=False)["state_dict"]}, "weights.pth").'
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        raise ReservoirError(
            f"{path} could not be read ({_summary(error)}): if the download was cut short, "
            "download it again."
        ) from error
    if not isinstance(checkpoint, dict):
        raise ReservoirError(
            f"{path} holds a {type(checkpoint).__name__} instead of a dictionary of weights: use "
            'a file that was saved as {"state_dict": model.state_dict()}.'
        )
    return checkpoint


@CheckpointLoader.register_scheme(r".*\.safetensors$", force=True)
def load_from_safetensors(filename: str | Path, map_location: Any = None) -> dict[str, Any]:
    """Read a ``.safetensors`` file; MMEngine's loaders find this function by the suffix.

    Args:
        filename: The file.
        map_location: A device. Callables and dictionaries, which remap *saved* devices, do not
            apply to this format: it saves none, and such tensors go to the CPU.
    """
    path = Path(filename).expanduser()
    if not path.is_file():
        raise ReservoirError(f"There is no checkpoint file {path}: check the path.")
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise ReservoirError(
            f"{path} is not a readable .safetensors file ({_summary(error)}): download it again."
        ) from error
    if isinstance(map_location, (str, torch.device)):
        weights = {name: tensor.to(map_location) for name, tensor in weights.items()}
    return {"state_dict": weights}


def load_from_safe_source(filename: str, map_location: Any = None) -> dict[str, Any]:
    """:func:`load` with the signature of an MMEngine loader."""
    return load(filename, map_location)


def read_checkpoints_safely() -> None:
    """Let MMEngine's Runner read files and addresses with :func:`load`.

    MMEngine itself leaves ``weights_only`` to torch, whose default is unsafe for downloads and,
    before torch 2.6, for files.
    """
    allow_mmengine_checkpoints()
    CheckpointLoader.register_scheme(["", "http://", "https://"], load_from_safe_source, force=True)


def check_compatible(
    model: nn.Module, checkpoint: dict[str, Any], allow_mismatch: bool = False
) -> None:
    """Make sure that a checkpoint fills the whole model.

    MMEngine loads with ``strict=False``: where names or shapes differ it only logs, and the model
    runs on random weights.

    Args:
        model: The model about to be filled.
        checkpoint: What :func:`load` returned: ``{"state_dict": ...}`` or the weights themselves.
        allow_mismatch: Whether to log a misfit as a warning instead of raising.

    Raises:
        ReservoirError: If a tensor is missing or has another shape, and that is not allowed.
    """
    if is_model_wrapper(model):
        model = model.module
    expected = {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        # MMEngine ignores these counters too: checkpoints of old torch do not have them.
        if isinstance(tensor, Tensor) and not name.endswith("num_batches_tracked")
    }
    found = {
        name.removeprefix("module."): tuple(tensor.shape)
        for name, tensor in checkpoint.get("state_dict", checkpoint).items()
        if isinstance(tensor, Tensor) and not name.endswith("num_batches_tracked")
    }
    missing = [name for name in expected if name not in found]
    reshaped = [name for name in expected if name in found and found[name] != expected[name]]
    unexpected = [name for name in found if name not in expected]

    if missing or reshaped:
        examples = [
            *(
                f"{n}: {found[n]} in the checkpoint, {expected[n]} in the model"
                for n in reshaped[:2]
            ),
            *(f"{n}: missing in the checkpoint, {expected[n]} in the model" for n in missing[:2]),
        ]
        message = (
            f"The checkpoint does not fit the model: of the model's {len(expected)} tensors, "
            f"{len(missing)} missing and {len(reshaped)} of another shape "
            f"({'; '.join(examples[:3])})."
        )
        if not allow_mismatch:
            raise ReservoirError(
                f"{message} Use the config that the checkpoint was trained with, or pass "
                "--allow-mismatch to leave those tensors at random values."
            )
        print_log(message, logger="current", level=logging.WARNING)
    if unexpected:
        print_log(
            f"{len(unexpected)} of the checkpoint's {len(found)} tensors have no place in the "
            f"model and are ignored: {', '.join(unexpected[:3])}{', ...' * (len(unexpected) > 3)}",
            logger="current",
            level=logging.WARNING,
        )


def _download(url: str) -> Path:
    """Fetch a file into torch's hub folder, once; other processes wait for the main one."""
    target = Path(torch.hub.get_dir(), "checkpoints", Path(urlparse(url).path).name)
    if is_main_process() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(target))
        except OSError as error:
            raise ReservoirError(f"{url} could not be downloaded: {_summary(error)}.") from error
    barrier()
    return target


def _summary(error: Exception) -> str:
    """What happened, in one line and without torch's advice to load unsafely."""
    cause = error.__context__ or error  # torch wraps the unpickler's own words in that advice
    line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return line.split(" was not an allowed global")[0][:200].rstrip(".")
