"""Where the stream of a test is, shown while it runs."""

from __future__ import annotations

import math
from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...report.progress import StreamProgress
from ..metric import VisitIoUMetric


@HOOKS.register_module()
class ProgressHook(Hook):
    """Shows round, domain, expert, K, running mIoU and the time left.

    Args:
        interval: Seconds between plain lines within a visit, where the output is no terminal.
    """

    priority = "BELOW_NORMAL"

    def __init__(self, interval: float = 30.0) -> None:
        self.interval = interval

    def before_test(self, runner: Runner) -> None:
        """Start the clock and, on a terminal, the bar."""
        loop = runner.test_loop
        self._progress = StreamProgress(
            loop.total_images,
            rounds=loop.visits[-1].round,
            interval=self.interval,
            say=runner.logger.info,
        )
        self._progress.start()

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        visit, meta = runner.test_loop.visit, outputs[-1].metainfo
        exact = [m for m in runner.test_loop.evaluator.metrics if isinstance(m, VisitIoUMetric)]
        running = exact[0].running_miou() if exact else math.nan
        self._progress.advance(
            visit.round,
            visit.domain,
            expert=meta.get("expert", 0),
            k=meta.get("k", 1),
            score="" if math.isnan(running) else f"mIoU {running:.1f}",
            count=len(outputs),
        )

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        miou = metrics.get("mIoU")
        self._progress.end_visit("not scored" if miou is None else f"mIoU {miou:.2f}")

    def after_test(self, runner: Runner) -> None:
        self._progress.stop()
