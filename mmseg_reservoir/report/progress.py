"""Where a stream is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..io.files import write_text

_print = partial(print, flush=True)  # or the lines of a pipe would come in heaps
_SECONDS_PER_WRITE = 1.0


@dataclass(eq=False)
class StreamProgress:
    """Shows round, domain, expert, K, running score and the time left.

    Either a context, or between `start` and `stop`.

    Args:
        total: Length of the stream; None if that is not known.
        unit: What it is counted in.
        rounds: Rounds of the stream; None if that is not known.
        quiet: Show nothing.
        interval: Seconds between plain lines, where the output is no terminal.
        say: Takes a plain line.
        note: Takes the line of a visit where the bar has shown it: for a log file.
        file: JSON file for a program that watches the run: ``done``, ``total``, ``where``,
            ``expert`` and ``k``, written at most once per second. Defaults to None, no file.
    """

    total: int | None
    unit: str = "images"
    rounds: int | None = None
    quiet: bool = False
    interval: float = 30.0
    say: Callable[[str], object] = _print
    note: Callable[[str], object] = lambda line: None
    file: Path | None = None

    def __post_init__(self) -> None:
        self._done = self._skipped = 0
        self._where, self._k = "", 1
        self._unsaid: str | None = None
        self._bar: Progress | None = None
        self._last_write = -math.inf

    def __enter__(self) -> StreamProgress:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the clock and, on a terminal, the bar."""
        self._start = self._last_line = time.monotonic()
        if sys.stdout.isatty() and not self.quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                TextColumn("{task.fields[status]}"),
            )
            self._task = self._bar.add_task("stream", total=self.total, status="")
            self._bar.start()

    def skip(self, count: int) -> None:
        """Begin behind so much of the stream, which was done before."""
        self._done = self._skipped = count

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is."""
        return {"done": self._done, "where": self._where, "k": self._k}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
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
        """Move on by ``count`` to a round, None of a stream that has none, and a domain.

        The ``expert`` of ``k`` adapted; ``score`` is the running one with its name.
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
        self._unsaid = f"{self._where}: {self._count()}, {status}"
        if time.monotonic() - self._last_line > self.interval:
            self._say_newest()

    def end_visit(self, score: str) -> None:
        """Close a visit with a line."""
        line = f"{self._where}: {score}, K {self._k}"
        if self._bar is not None:
            self._bar.console.print(line)
            self.note(f"{line}, {self._count()}")
        elif not self.quiet:
            self.say(f"{line}, {self._count()}")
        self._unsaid = None  # this line says more

    def stop(self) -> None:
        """Stop the bar, or say where the stream ended."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._say_newest()

    def _write(self, file: Path, expert: int) -> None:
        now = time.monotonic()
        if self._done != self.total and now - self._last_write < _SECONDS_PER_WRITE:
            return
        self._last_write = now
        place = {"done": self._done, "total": self.total, "where": self._where}
        write_text(file, json.dumps(place | {"expert": expert, "k": self._k}))

    def _say_newest(self) -> None:
        if self._unsaid is not None and not self.quiet:
            self.say(self._unsaid)
        self._unsaid, self._last_line = None, time.monotonic()

    def _count(self) -> str:
        if self.total is None:
            return f"{self._done} {self.unit}"
        pace = (time.monotonic() - self._start) / max(1, self._done - self._skipped)
        left = pace * (self.total - self._done)
        return f"{self._done}/{self.total} {self.unit}, {left:.0f} s left"
