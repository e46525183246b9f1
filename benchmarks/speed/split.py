"""The time of a step by stage, from timers around the real objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.methods import base as methods_base

STAGES = (
    *("style", "route", "check-out", "forward", "backward", "step", "commit"),
    *("ensemble", "care", "way-back"),
)
"""Care is guard and pooling. Way-back is the copy of `StepRollback`. The rest of a step is the loss
and Python."""


class Stopwatch:
    """Seconds by stage. Only the outermost timer runs: a guard includes its forward passes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._is_running = False

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a timer."""

        def timed(*args: Any, **options: Any) -> Any:
            if self._is_running:
                return function(*args, **options)
            self._is_running, start = True, self.clock()
            try:
                return function(*args, **options)
            finally:
                self.seconds[part] += self.clock() - start
                self._is_running = False

        return timed


@contextmanager
def timed(pipeline: AdaptationPipeline, clock: Callable[[], float]) -> Iterator[Stopwatch]:
    """Measure the stages of a pipeline within this context."""
    watch = Stopwatch(clock)
    method = pipeline.method
    timers: list[tuple[Any, str, str]] = [
        (method, "forward", "forward"),
        (method, "_propagate", "backward"),
        (method, "move", "step"),
    ]
    if hasattr(pipeline, "reservoir"):
        timers += [
            (pipeline, "encoder", "style"),
            (pipeline.router, "route", "route"),
            (method, "load", "check-out"),
            (pipeline.reservoir, "commit", "commit"),
            (pipeline, "_predict_together", "ensemble"),
        ]
        if pipeline.safeguards is not None:
            timers.append((pipeline.safeguards, "apply", "care"))
    rollback = methods_base.StepRollback

    class TimedRollback(rollback):
        """A rollback with a timer."""

        def __init__(self, *args: Any) -> None:
            watch.around("way-back", super().__init__)(*args)

        def judge(self, *args: Any, **options: Any) -> None:
            watch.around("way-back", super().judge)(*args, **options)

    patches = [
        patch.object(owner, name, watch.around(part, getattr(owner, name)))
        for owner, name, part in timers
    ]
    patches.append(patch.object(methods_base, "StepRollback", TimedRollback))
    for one in patches:
        one.start()
    try:
        yield watch
    finally:
        for one in reversed(patches):
            one.stop()
