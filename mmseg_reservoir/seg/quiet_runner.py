"""A runner that logs long texts to its file, so that a start fits on a screen."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..io.files import explain_disk_errors

FILE_ONLY = {"file_only": True}
"""``logger.info(text, extra=FILE_ONLY)``: too long for a terminal."""


_PAGES = ("_log_env", "__init__", "wrap_model")
"""Functions of mmengine's runner that log about machine, config, hooks and distributed training."""


class QuietRunner(Runner):
    """mmengine's runner, without its pages about machine, config and hooks on the terminal."""

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            super().__init__(*args, **options)
        except OSError as error:
            if error.filename is not None:
                raise
            with explain_disk_errors(options["work_dir"]):  # of a write, which knows no path
                raise

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """The runner's logger, which writes everything to its file."""
        logger = super().build_logger(*args, **kwargs)
        for handler in logger.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handleError = partial(_end_log, logger, handler)
            else:
                handler.addFilter(_is_for_terminals)
        return logger

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> dict:
        """As mmengine's; what it prints, beside a line in the log, is for the log file."""
        with redirect_stdout(io.StringIO()) as printed:
            checkpoint = super().load_checkpoint(*args, **kwargs)
        log_to_file(self.logger, printed.getvalue().rstrip())
        return checkpoint


def _end_log(logger: MMLogger, handler: logging.FileHandler, record: logging.LogRecord) -> None:
    """Continue without a log file that cannot be written, instead of a traceback for each line."""
    logger.removeHandler(handler)
    error = sys.exc_info()[1]
    logger.warning(
        "cannot write %s (%s): the run continues without it", handler.baseFilename, error
    )


def _is_for_terminals(record: logging.LogRecord) -> bool:
    pages = record.module == "runner" and record.funcName in _PAGES
    return not (pages or getattr(record, "file_only", False))


def log_to_file(logger: logging.Logger, text: str) -> None:
    """Write a line to a logger's files: a terminal shows it already."""
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, (), None)
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)
