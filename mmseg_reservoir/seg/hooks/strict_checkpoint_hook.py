"""A hook that stops a run whose checkpoint does not fit its model."""

from __future__ import annotations

from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from mmseg_reservoir.seg.checkpoint import check_compatible, read_checkpoints_safely


@HOOKS.register_module()
class StrictCheckpointHook(Hook):
    """Read the checkpoint safely, and check it before MMEngine copies it into the model.

    Args:
        allow_mismatch: Whether a misfit is only logged. Tensors that are missing from the
            checkpoint then keep their random values.
    """

    # After EMAHook (NORMAL), which exchanges the checkpoint's weights for their average.
    priority = "LOW"

    def __init__(self, allow_mismatch: bool = False) -> None:
        self.allow_mismatch = allow_mismatch

    def before_run(self, runner: Runner) -> None:
        """Take over MMEngine's loaders; Runner calls this before it reads the checkpoint."""
        read_checkpoints_safely()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Compare the checkpoint with the model, which still has its initial weights."""
        check_compatible(runner.model, checkpoint, self.allow_mismatch)
