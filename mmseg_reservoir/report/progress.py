"""Show the progress of one or more runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..io.files import write_text

_print = partial(print, flush=True)  # otherwise lines through a pipe arrive in blocks
_SECONDS_PER_WRITE = 1.0


class Position(NamedTuple):
    """A position in a stream, as `StreamProgress` writes it to a file."""

    done: int
    total: int | None
    where: str
    expert: int
    k: int

    @classmethod
    def read(cls, file: Path) -> Position | None:
        """Return the newest position of a run; None before its first frame."""
        return cls(**json.loads(file.read_text())) if file.is_file() else None


@dataclass(eq=False)
class StreamProgress:
    """A display of round, domain, expert, number of experts K, running score and time left.

    Use it as a context, or call `start` and `stop`.

    Args:
        total: Length of the stream; None if it is unknown.
        unit: Unit of the length. Defaults to "images".
        rounds: Number of rounds; None if it is unknown.
        quiet: Whether to show nothing.
        interval: Seconds between plain lines, if the output is no terminal. Defaults to 30.
        write_line: Function that prints a plain line. Defaults to `print`.
        log_line: Function that logs the last line of a visit, if a bar is shown.
        file: JSON file with the newest `Position` for other programs, written at most once per
            second. Defaults to None, no file.
    """

    total: int | None
    unit: str = "images"
    rounds: int | None = None
    quiet: bool = False
    interval: float = 30.0
    write_line: Callable[[str], object] = _print
    log_line: Callable[[str], object] = lambda line: None
    file: Path | None = None

    def __post_init__(self) -> None:
        self._done = self._skipped = 0
        self._where, self._k = "", 1
        self._pending: str | None = None
        self._bar: Progress | None = None
        self._last_write = -math.inf

    def __enter__(self) -> StreamProgress:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        self._start = self._last_line = time.monotonic()
        if sys.stdout.isatty() and not self.quiet:
            remaining = TimeRemainingColumn(elapsed_when_finished=True)
            self._bar = _bar(BarColumn(), MofNCompleteColumn(), remaining)
            self._task = self._bar.add_task("stream", total=self.total, status="")
            self._bar.start()

    def skip(self, count: int) -> None:
        """Start after ``count`` images, which an earlier run has done."""
        self._done = self._skipped = count

    def state_dict(self) -> dict[str, Any]:
        return {"done": self._done, "where": self._where, "k": self._k}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.skip(state["done"])
        self._where, self._k = state["where"], state["k"]

    def advance(
        self,
        round: int | None,
        domain: str,
        *,
        expert: int,
        k: int,
        score: str = "",
        count: int = 1,
    ) -> None:
        """Advance by ``count`` images of one ``expert`` of ``k``.

        ``round`` is None in a stream without rounds. ``score`` is the running score with its name.
        """
        self._done += count
        of = f"/{self.rounds}" if self.rounds else ""
        self._where = domain if round is None else f"round {round}{of} {domain}"
        self._k = k
        if self.file is not None:
            self._write(self.file, expert)
        status = ", ".join(filter(None, [f"expert {expert}", f"K {k}", score]))
        if self._bar is not None:
            self._bar.update(
                self._task, completed=self._done, description=self._where, status=status
            )
            return
        self._pending = f"{self._where}: {self._count()}, {status}"
        if time.monotonic() - self._last_line > self.interval:
            self._write_pending()

    def end_visit(self, score: str) -> None:
        line = f"{self._where}: {score}, K {self._k}"
        if self._bar is not None:
            self._bar.console.print(line)
            self.log_line(f"{line}, {self._count()}")
        elif not self.quiet:
            self.write_line(f"{line}, {self._count()}")
        self._pending = None  # this line includes it

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._write_pending()

    def _write(self, file: Path, expert: int) -> None:
        now = time.monotonic()
        if self._done != self.total and now - self._last_write < _SECONDS_PER_WRITE:
            return
        self._last_write = now
        position = Position(self._done, self.total, self._where, expert, self._k)
        write_text(file, json.dumps(position._asdict()))

    def _write_pending(self) -> None:
        if self._pending is not None and not self.quiet:
            self.write_line(self._pending)
        self._pending, self._last_line = None, time.monotonic()

    def _count(self) -> str:
        if self.total is None:
            return f"{self._done} {self.unit}"
        pace = (time.monotonic() - self._start) / max(1, self._done - self._skipped)
        left = pace * (self.total - self._done)
        return f"{self._done}/{self.total} {self.unit}, {left:.0f} s left"


class RunsProgress:
    """A display of frames done, frames per second, current expert and time left of every run.

    The last row is the sum. Its time left assumes the mean time per frame for runs that have not
    started.

    Args:
        names: Names of the runs.
        frames: Number of frames of each run.
        workers: Number of runs at once.
        interval: Seconds between plain lines, if the output is no terminal. Defaults to 15.
    """

    def __init__(
        self, names: Sequence[str], frames: int, workers: int, interval: float = 15.0
    ) -> None:
        self.frames, self.workers, self.interval = frames, workers, interval
        self._bar: Progress | None = None
        if sys.stdout.isatty():
            self._bar = _bar(BarColumn(bar_width=20), MofNCompleteColumn())
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
        self._show(name, "loading and calibrating")

    def update(self, name: str, position: Position) -> None:
        now = time.monotonic()
        # Measure from the first position, because loading the model is not part of the rate.
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
        self._done[name] = self.frames
        self._last_line[name] = -math.inf  # print this line in any case
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
            _print(", ".join([done, status, *([f"all runs: {total}"] if total else [])]))


def _bar(*columns: Any) -> Progress:
    return Progress(TextColumn("{task.description}"), *columns, TextColumn("{task.fields[status]}"))
