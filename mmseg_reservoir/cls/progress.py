"""Where a classifier's stream is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

COLUMNS = ("{task.description}", "{task.fields[status]}")


class StreamProgress:
    """Shows round, domain, expert, K, running error and the time left.

    Args:
        total: Batches of the stream; None if that is not known.
        rounds: Rounds of the stream; None if that is not known.
        quiet: Show nothing.
        interval: Seconds between plain lines, where the output is no terminal.
    """

    def __init__(
        self,
        total: int | None,
        rounds: int | None = None,
        quiet: bool = False,
        interval: float = 30.0,
    ) -> None:
        self.total = total
        self.rounds = rounds
        self.quiet = quiet
        self.interval = interval
        self._done = 0
        self._bar: Progress | None = None

    def __enter__(self) -> StreamProgress:
        self._start = self._last_line = time.monotonic()
        if sys.stdout.isatty() and not self.quiet:
            about, status = (TextColumn(text) for text in COLUMNS)
            time_left = TimeRemainingColumn(elapsed_when_finished=True)
            self._bar = Progress(about, BarColumn(), MofNCompleteColumn(), time_left, status)
            self._task = self._bar.add_task("stream", total=self.total, status="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, visit: Mapping[str, Any], expert: int) -> None:
        """Move on by a batch."""
        self._done += 1
        if self.quiet:
            return
        of = f"/{self.rounds}" if self.rounds else ""
        where = f"round {visit['round']}{of} {visit['domain']}"
        status = f"expert {expert}, K {visit['k']}, error {visit['error']:.1f}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=where, status=status)
        elif time.monotonic() - self._last_line > self.interval or self._done == self.total:
            self._last_line = time.monotonic()
            print(f"{where}: {self._count()}, {status}", flush=True)

    def _count(self) -> str:
        if self.total is None:
            return f"{self._done} batches"
        left = (time.monotonic() - self._start) / self._done * (self.total - self._done)
        return f"{self._done}/{self.total} batches, {left:.0f} s left"
