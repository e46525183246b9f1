"""Progress of a test."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...core.outcome import NOT_ADAPTING
from ...report.progress import StreamProgress
from ..metric import VisitIoUMetric
from ..runner import log_to_file


@HOOKS.register_module()
class ProgressHook(Hook):
    """Shows round, domain, expert, number of experts K, running mIoU and the time left.

    Args:
        interval: Seconds between two lines of a visit, if the output is no terminal. Defaults
            to 30.
        file: JSON file with the position in the stream, see `StreamProgress`. Defaults to None.
    """

    priority = "BELOW_NORMAL"

    def __init__(self, interval: float = 30.0, file: str | None = None) -> None:
        self.interval = interval
        self.file = None if file is None else Path(file)
        self._progress: Any = None  # a StreamProgress while a test runs

    def before_test(self, runner: Runner) -> None:
        loop = runner.test_loop
        self._progress = StreamProgress(
            loop.total_images,
            rounds=loop.visits[-1].round,
            interval=self.interval,
            write_line=runner.logger.info,
            log_line=partial(log_to_file, runner.logger),
            file=self.file,
        )
        self._progress.start()

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        visit, outcome = runner.test_loop.visit, outputs[-1].get("outcome", NOT_ADAPTING)
        exact = [m for m in runner.test_loop.evaluator.metrics if isinstance(m, VisitIoUMetric)]
        running = exact[0].running_miou() if exact else math.nan
        self._progress.advance(
            visit.round,
            visit.domain,
            expert=outcome.expert,
            k=outcome.k,
            score="" if math.isnan(running) else f"mIoU {running:.1f}",
            count=len(outputs),
        )

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        miou = metrics.get("mIoU")
        if miou is None:
            score = "not scored"
        else:
            score = "no labeled pixel" if math.isnan(miou) else f"mIoU {miou:.2f}"
        self._progress.end_visit(score)

    def state_dict(self) -> dict[str, Any]:
        return self._progress.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._progress.load_state_dict(state)

    def after_test(self, runner: Runner) -> None:
        self._progress.stop()

    def after_abort(self, runner: Runner) -> None:
        """Restore the terminal. `RecurringTestLoop` calls this if a run ends early."""
        if self._progress is not None:
            self._progress.stop()
