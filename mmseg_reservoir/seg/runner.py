"""Run a test with little text on the terminal, or once per learning rate."""

from __future__ import annotations

import copy
import io
import json
import logging
import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..errors import ReservoirError
from ..io.files import explain_disk_errors, write_text
from ..report.rate_choice import LR_GRID, fair_record, fair_table
from ..runs.record import strict_json

FILE_ONLY = {"file_only": True}
"""Marks a message that is only for the log file: ``logger.info(text, extra=FILE_ONLY)``."""


_PAGES = ("_log_env", "__init__", "wrap_model")
"""Functions of mmengine's runner with long logs of machine, config, hooks and distribution."""


class QuietRunner(Runner):
    """mmengine's runner, without its long logs of machine, config and hooks on the terminal."""

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            super().__init__(*args, **options)
        except OSError as error:
            if error.filename is not None:
                raise
            with explain_disk_errors(options["work_dir"]):  # these do not name the path
                raise

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Return the runner's logger. Long messages go only to its file, not to the terminal."""
        logger = super().build_logger(*args, **kwargs)
        for handler in logger.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handleError = partial(  # type: ignore[method-assign]
                    _end_log, logger, handler
                )
            else:
                handler.addFilter(_is_for_terminals)
        return logger

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> dict:
        """Load a checkpoint as mmengine does, but log only to the file."""
        with redirect_stdout(io.StringIO()) as printed:
            checkpoint = super().load_checkpoint(*args, **kwargs)
        log_to_file(self.logger, printed.getvalue().rstrip())
        return checkpoint


def _end_log(logger: MMLogger, handler: logging.FileHandler, record: logging.LogRecord) -> None:
    """Stop writing to a log file after an error, instead of a traceback for each line."""
    logger.removeHandler(handler)
    error = sys.exc_info()[1]
    logger.warning(
        "cannot write %s (%s): the run continues without it", handler.baseFilename, error
    )


def _is_for_terminals(record: logging.LogRecord) -> bool:
    pages = record.module == "runner" and record.funcName in _PAGES
    return not (pages or getattr(record, "file_only", False))


def log_to_file(logger: logging.Logger, text: str) -> None:
    """Write a line only to a logger's files, because the terminal shows it already."""
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, (), None)
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


def run_fair(cfg: Config, grid: Sequence[float] = LR_GRID) -> dict[str, Any]:
    """Run a config once per learning rate, each in ``WORK_DIR/lr_...``, and print all results.

    Published tables use different learning rates per method and do not state how these were tuned.
    Here each method gets the same grid, and all results are reported. The marked rate is chosen
    without labels (see :mod:`mmseg_reservoir.report.rate_choice`).

    Returns:
        The content of ``WORK_DIR/fair.json``.
    """
    _check(cfg, grid)
    root = Path(cfg.work_dir)
    runs, folders = {}, {}
    for lr in grid:
        one = with_learning_rate(cfg, lr)
        QuietRunner.from_cfg(one).test()
        folders[lr] = Path(one.work_dir)
        runs[lr] = json.loads((folders[lr] / "results.json").read_text())
        # Write after every rate, so that an interruption loses no finished rate.
        record = {"complete": len(runs) == len(grid), **fair_record(runs, folders)}
        write_text(root / "fair.json", strict_json(record))
    print(f"\nmIoU by learning rate and visit, mean over the conditions\n{fair_table(record)}")
    print(f"All of it is in {root / 'fair.json'}")
    return record


def rate_folder(lr: float) -> str:
    """Return the name of a learning rate's folder in the work directory."""
    return f"lr_{lr:g}"


def with_learning_rate(cfg: Config, lr: float) -> Config:
    """Return a copy of the config with this learning rate and separate folders."""
    one = copy.deepcopy(cfg)
    name = rate_folder(lr)
    one.method.optimizer.lr = lr
    one.work_dir = str(Path(cfg.work_dir) / name)
    # mmengine names loggers by the second of the start, so two rates could share one.
    one.experiment_name = f"{Path(cfg.filename or 'config').stem}_{name}"
    for hook in one.get("custom_hooks") or []:
        if hook.get("show_dir"):
            hook["show_dir"] = str(Path(hook["show_dir"]) / name)
    return one


def _check(cfg: Config, grid: Sequence[float]) -> None:
    if not grid or len({f"{lr:g}" for lr in grid}) < len(grid):
        raise ReservoirError(f"--lr-grid needs learning rates that differ, got {list(grid)}")
    for lr in grid:
        if not (lr > 0 and math.isfinite(lr)):
            raise ReservoirError(f"--lr-grid needs positive learning rates, got {lr:g}")
    if "lr" not in (cfg.method.get("optimizer") or {}):
        raise ReservoirError(
            f"the method {cfg.method.type!r} has no method.optimizer.lr, so there is no learning "
            "rate to choose: run it with --protocol published"
        )
    if not any(hook["type"] == "ResultsHook" for hook in cfg.get("custom_hooks") or []):
        raise ReservoirError(
            "--protocol fair reads results.json: add dict(type='ResultsHook') to custom_hooks"
        )
