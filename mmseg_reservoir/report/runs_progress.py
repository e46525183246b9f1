"""Progress of several runs side by side: a bar for each, plain lines without a terminal."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class Position(NamedTuple):
    """A position in a stream, as `StreamProgress` writes it to a file."""

    done: int
    total: int
    where: str
    expert: int
    k: int

    @classmethod
    def read(cls, file: Path) -> Position | None:
        """Return the newest position of a run; None before its first frame."""
        return cls(**json.loads(file.read_text())) if file.is_file() else None


class RunsProgress:
    """Show frames done, frames per second, current expert and time left of every run.

    The last row is the sum. Its time left assumes that a run which has not started takes the mean
    time per frame of the others.

    Args:
        names: Names of the runs.
        frames: Frames of each run.
        workers: Runs that go at once.
        interval: Seconds between plain lines, where the output is no terminal. Defaults to 15.
    """

    def __init__(
        self, names: Sequence[str], frames: int, workers: int, interval: float = 15.0
    ) -> None:
        self.frames, self.workers, self.interval = frames, workers, interval
        self._bar: Progress | None = None
        if sys.stdout.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[status]}"),
            )
            self._tasks = {n: self._bar.add_task(n, total=frames, status="") for n in names}
            total = frames * len(names)
            self._sum = self._bar.add_task("all runs", total=total, status="", completed=0)
        self._done = dict.fromkeys(names, 0)
        self._first: dict[str, tuple[float, int]] = {}  # time and frames of the first position
        self._pace: dict[str, float] = {}  # seconds per frame
        self._last_line = dict.fromkeys(names, -math.inf)

    def __enter__(self) -> RunsProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, name: str) -> None:
        """Report that a run loads its model and calibrates."""
        self._show(name, "loading and calibrating")

    def update(self, name: str, position: Position) -> None:
        """Report the newest position of a run."""
        now = time.monotonic()
        # Frames before the first position are left out: loading the model is not part of the rate.
        since, before = self._first.setdefault(name, (now, position.done))
        self._done[name] = position.done
        if position.done > before:
            self._pace[name] = (now - since) / (position.done - before)
        status = [position.where, f"expert {position.expert} of {position.k}"]
        if name in self._pace:
            left = self._pace[name] * (self.frames - position.done)
            status += [f"{1 / self._pace[name]:.1f} frames/s", f"{left:.0f} s left"]
        self._show(name, ", ".join(status))

    def finish(self, name: str, seconds: float) -> None:
        """Report that a run ended after so many seconds."""
        self._done[name] = self.frames
        self._last_line[name] = -math.inf  # worth a line at any time
        self._show(name, f"finished in {seconds:.0f} s")

    def seconds_left(self) -> float | None:
        """Return the time left of all runs; None before the first rate is known."""
        if not self._pace:
            return None
        mean = sum(self._pace.values()) / len(self._pace)
        left = [
            self._pace.get(name, mean) * (self.frames - done) for name, done in self._done.items()
        ]
        return max(*left, sum(left) / self.workers)

    def _show(self, name: str, status: str) -> None:
        left = self.seconds_left()
        total = "" if left is None else f"about {left:.0f} s left"
        if self._bar is not None:
            self._bar.update(self._tasks[name], completed=self._done[name], status=status)
            self._bar.update(self._sum, completed=sum(self._done.values()), status=total)
        elif time.monotonic() - self._last_line[name] > self.interval:
            self._last_line[name] = time.monotonic()
            done = f"{name}: {self._done[name]}/{self.frames} frames"
            print(", ".join([done, status, *([f"all runs: {total}"] if total else [])]), flush=True)
