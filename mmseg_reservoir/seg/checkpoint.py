"""Checkpoints of segmentors: read them safely, and refuse those that do not fit the model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse

import torch
from mmengine.dist import barrier, is_main_process
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import Tensor, nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.checkpoints import (
    allow_mmengine_checkpoints,
    find_misfits,
    read_checkpoint,
)


def load(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Return the checkpoint in a file or at an http(s) address, kept in torch's hub folder."""
    if str(path).startswith(("http://", "https://")):
        path = _download(str(path))
    return read_checkpoint(path, map_location)


@CheckpointLoader.register_scheme(r".*\.safetensors$", force=True)
def load_from_safe_source(filename: str, map_location: Any = None) -> dict[str, Any]:
    """Call :func:`load` with the signature of an MMEngine loader."""
    return load(filename, map_location)


def read_checkpoints_safely() -> None:
    """Make MMEngine's Runner read files and addresses with :func:`load`.

    MMEngine leaves ``weights_only`` at torch's default. This is unsafe for downloads and, before
    torch 2.6, for files.
    """
    allow_mmengine_checkpoints()
    CheckpointLoader.register_scheme(["", "http://", "https://"], load_from_safe_source, force=True)


def check_compatible(
    model: nn.Module, checkpoint: dict[str, Any], allow_mismatch: bool = False
) -> None:
    """Check that a checkpoint has every tensor of the model, in the same shape.

    MMEngine loads with ``strict=False``: it only logs different names or shapes, and the model
    keeps random weights.

    With ``allow_mismatch`` a mismatch is only logged.
    """
    if is_model_wrapper(model):
        model = cast(nn.Module, model.module)
    weights = checkpoint.get("state_dict", checkpoint)
    saved = {n.removeprefix("module."): t for n, t in weights.items() if isinstance(t, Tensor)}
    expected = model.state_dict()
    missing, reshaped, unexpected = find_misfits(saved, expected)
    if missing or reshaped:
        message = (
            f"The checkpoint does not fit the model: of the model's {_count(expected)} tensors, "
            f"{len(missing)} missing and {len(reshaped)} of another shape "
            f"({'; '.join([*reshaped[:2], *missing[:2]][:3])})."
        )
        if not allow_mismatch:
            raise ReservoirError(
                f"{message} Use the config that the checkpoint was trained with, or pass "
                "--allow-mismatch to leave those tensors at random values."
            )
        print_log(message, logger="current", level=logging.WARNING)
    if unexpected:
        print_log(
            f"{len(unexpected)} of the checkpoint's {_count(saved)} tensors have no place in the "
            f"model and are ignored: {', '.join(unexpected[:3])}{', ...' * (len(unexpected) > 3)}",
            logger="current",
            level=logging.WARNING,
        )


@HOOKS.register_module()
class StrictCheckpointHook(Hook):
    """Read the checkpoint safely, and check it before MMEngine copies it into the model.

    Args:
        allow_mismatch: Whether to only log a mismatch. Tensors that are missing from the checkpoint
            then keep their random values. Defaults to False.
    """

    # After EMAHook (NORMAL), which replaces the checkpoint's weights by their average.
    priority = "LOW"

    def __init__(self, allow_mismatch: bool = False) -> None:
        self.allow_mismatch = allow_mismatch

    def before_run(self, runner: Runner) -> None:
        """Replace MMEngine's loaders. Runner calls this before it reads the checkpoint."""
        read_checkpoints_safely()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Check the checkpoint before its weights are copied into the model."""
        check_compatible(runner.model, checkpoint, self.allow_mismatch)


def _count(weights: Mapping[str, Any]) -> int:
    # MMEngine ignores these counters, too.
    return sum(not name.endswith("num_batches_tracked") for name in weights)


def _download(url: str) -> Path:
    """Download a file into torch's hub folder, once; other processes wait for the main one."""
    target = Path(torch.hub.get_dir(), "checkpoints", Path(urlparse(url).path).name)
    if is_main_process() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(target))
        except OSError as error:
            raise ReservoirError(
                f"{url} could not be downloaded ({error}): try again, or put a copy at {target}"
            ) from error
    barrier()
    return target
