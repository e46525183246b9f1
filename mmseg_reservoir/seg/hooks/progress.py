"""Where the stream is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
        self._bar: Progress | None = None

    def before_test(self, runner: Runner) -> None:
        """Start the clock and, on a terminal, the bar."""
        loop = runner.test_loop
        self._total, self._done = loop.total_images, 0
        self._rounds = loop.visits[-1].round
        self._start = self._last_line = time.monotonic()
        if sys.stdout.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                TextColumn("{task.fields[status]}"),
            )
            self._task = self._bar.add_task("stream", total=self._total, status="")
            self._bar.start()

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Move on by a batch."""
        self._done += len(outputs)
        visit, about = runner.test_loop.visit, outputs[-1].metainfo
        self._k = about.get("k", 1)
        where = f"round {visit.round}/{self._rounds} {visit.domain}"
        exact = [m for m in runner.test_loop.evaluator.metrics if isinstance(m, VisitIoUMetric)]
        score = f" mIoU {exact[0].running_miou():.1f}" if exact else ""
        status = f"expert {about.get('expert', 0)}, K {self._k}{score}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=where, status=status)
        elif time.monotonic() - self._last_line > self.interval:
            self._last_line = time.monotonic()
            runner.logger.info(f"{where}: {self._count()}, {status}")

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        """Close a visit with a line."""
        visit = runner.test_loop.visit
        where = f"round {visit.round}/{self._rounds} {visit.domain}"
        line = f"{where}: mIoU {metrics['mIoU']:.2f}, K {self._k}"
        if self._bar is not None:
            self._bar.console.print(line)
        else:
            runner.logger.info(f"{line}, {self._count()}")

    def after_test(self, runner: Runner) -> None:
        """Stop the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _count(self) -> str:
        seconds = time.monotonic() - self._start
        left = seconds / self._done * (self._total - self._done)
        return f"{self._done}/{self._total} images, {left:.0f} s left"
