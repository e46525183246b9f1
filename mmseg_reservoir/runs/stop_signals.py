"""Handle Ctrl-C and SIGTERM, so that a run saves its state before it stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class StopSignals:
    """A context that only records the first signal to stop; the second one stops at once.

    It has no effect outside the main thread, where Python allows no handlers.

    Args:
        at_once: Whether to stop at the first signal, so that ``finally`` runs on SIGTERM, too.
            Defaults to False.
        wake: Function that the handler calls at the first signal, to end a long wait.

    Attributes:
        caught: The newest signal; None before the first.
    """

    def __init__(self, at_once: bool = False, wake: Callable[[], object] = lambda: None) -> None:
        self.at_once, self.wake = at_once, wake
        self.caught: signal.Signals | None = None
        self._owner = os.getpid()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def obey(self) -> None:
        """Raise KeyboardInterrupt or SystemExit if a signal was caught."""
        if self.caught is signal.SIGINT:
            raise KeyboardInterrupt
        if self.caught is not None:
            raise SystemExit(128 + self.caught)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            # This is a dataloader worker, forked with this handler. It ignores Ctrl-C, because the
            # run needs it until the state is saved. SIGTERM is sent to stop this worker.
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        is_second = self.caught is not None
        self.caught = signal.Signals(number)
        if is_second or self.at_once:
            self.obey()
        self.wake()


def stop_code(error: BaseException) -> int | None:
    """Return the exit code for an error of :meth:`StopSignals.obey`, None for any other error."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    code = 128 + signal.SIGTERM
    return code if isinstance(error, SystemExit) and error.code == code else None
