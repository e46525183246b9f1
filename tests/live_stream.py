"""A stream for tests of the live page: frames come when they are asked for."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mmseg_reservoir.live import LiveFrame, StreamInfo

OVERLAYS = [[128, 64, 160], [0, 0, 142]]
"""Colors (BGR) of the overlays, in turn."""


class StepStream:
    """Shows a frame for every `step`, and notes what was asked of it."""

    info = StreamInfo("drive", 40, {"road": [128, 64, 128], "car": [0, 0, 142]})

    def __init__(self) -> None:
        self._frames: queue.Queue[LiveFrame | Exception | None] = queue.Queue()
        self.asked: list[tuple] = []
        self.count = 0

    def step(
        self, expert: int = 0, k: int = 2, opened: bool = False, size=(32, 64), **more: Any
    ) -> None:
        image = np.full((*size, 3), 200, np.uint8)
        overlay = np.full((*size, 3), OVERLAYS[self.count % 2], np.uint8)
        self.count += 1
        self._frames.put(LiveFrame(image, overlay, expert, k, opened, **more))

    def end(self, error: Exception | None = None) -> None:
        self._frames.put(error)

    def __iter__(self) -> Iterator[LiveFrame]:
        while True:
            frame = self._frames.get()
            if isinstance(frame, Exception):
                raise frame
            if frame is None:
                return
            yield frame

    def stop(self) -> None:
        self.end()

    def pause(self, paused: bool) -> None:
        self.asked.append(("pause", paused))

    def reset(self, expert: int) -> None:
        self.asked.append(("reset", expert))

    def save(self, folder: Path) -> None:
        self.asked.append(("save", folder))
