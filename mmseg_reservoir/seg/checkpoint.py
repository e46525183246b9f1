"""Checkpoints of segmentors: MMEngine reads them safely, and none that does not fit is used."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
from mmengine.dist import barrier, is_main_process
from mmengine.logging import print_log
from mmengine.model import is_model_wrapper
from mmengine.runner.checkpoint import CheckpointLoader
from torch import Tensor, nn

from mmseg_reservoir.checkpoint_files import allow_mmengine_checkpoints, read_checkpoint
from mmseg_reservoir.errors import ReservoirError


def load(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """:func:`read_checkpoint` of a file or an http(s) address.

    Args:
        path: The file or address. Downloads are kept in torch's hub folder.
        map_location: As in :func:`torch.load`.
    """
    if str(path).startswith(("http://", "https://")):
        path = _download(str(path))
    return read_checkpoint(path, map_location)


@CheckpointLoader.register_scheme(r".*\.safetensors$", force=True)
def load_from_safe_source(filename: str, map_location: Any = None) -> dict[str, Any]:
    """:func:`load` with the name and signature of a loader of MMEngine."""
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
            raise ReservoirError(
                f"{url} could not be downloaded ({error}): try again, or give the path of a copy"
            ) from error
    barrier()
    return target
