"""Run a stream in a thread, and keep the data for the live page. It has no web code."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

_logger = logging.getLogger(__name__)

TIMELINE = 1200
"""Largest number of frames in the timeline of the page."""
WIDTH = 960
"""Largest width of the pictures on the page, in pixels."""
_MESSAGES = 20
_SMOOTHING = 0.9  # weight of the older frames in the frames per second


@dataclass(frozen=True)
class LiveFrame:
    """One frame of a stream, with its prediction.

    Args:
        image: The frame, BGR, ``(H, W, 3)``, uint8.
        overlay: The frame with its labels in color, in the same form.
        expert: Index of the expert that adapted. Defaults to 0.
        k: Number of experts. Defaults to 1.
        opened: Whether the expert is new. Defaults to False.
        number: Position of the frame in the stream, from 1. Defaults to the number of frames so
            far.
        confidence: Mean probability of the labels, 0 to 1. Defaults to None: unknown.
        state: State of the expert (see `AdaptationPipeline.expert_state`). Defaults to none.
    """

    image: np.ndarray
    overlay: np.ndarray
    expert: int = 0
    k: int = 1
    opened: bool = False
    number: int | None = None
    confidence: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamInfo:
    """Information about a whole stream for the page.

    Args:
        name: Name of the stream.
        total: Number of frames. Defaults to None: unknown.
        classes: RGB color of each class, by name. Defaults to no classes.
    """

    name: str = "Live adaptation"
    total: int | None = None
    classes: Mapping[str, Sequence[int]] = field(default_factory=dict)


class LiveStream(Protocol):
    """The interface of a stream for the live page: its frames, and actions of a viewer.

    All methods except :meth:`stop` are called from one thread, between frames.
    """

    info: StreamInfo

    def __iter__(self) -> Iterator[LiveFrame]:
        """Yield each frame after it is segmented."""

    def stop(self) -> None:
        """End the stream without waiting for another frame."""

    def pause(self, paused: bool) -> None:
        """Stop or resume the adaptation. Frames are still predicted."""

    def reset(self, expert: int) -> None:
        """Reset an expert to the source."""

    def save(self, folder: Path) -> None:
        """Save the reservoir."""


class StreamWorker:
    """A worker that runs a stream in a thread, and keeps its newest frame, experts and messages.

    Args:
        stream: The stream.
        save_to: Folder for the reservoir that a viewer saves. A viewer cannot choose it.
    """

    def __init__(self, stream: LiveStream, save_to: Path) -> None:
        self.stream = stream
        self.save_to = save_to
        self._pictures: dict[str, bytes] = {}
        self._frames = 0
        self._k, self._fps, self._paused = 1, 0.0, False
        self._newest: dict[str, Any] = {"number": 0, "confidence": None, "state": {}}
        self._timeline: deque[int] = deque(maxlen=TIMELINE)
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        self._actions: queue.Queue[tuple[str, Callable[[], object]]] = queue.Queue(maxsize=16)
        self._lock, self._acting = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live stream", daemon=True)
        self.error: BaseException | None = None
        """Error that ended the stream; None without one."""

    def start(self) -> None:
        """Start the stream."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """End the stream after the current frame."""
        self._stop.set()
        self.stream.stop()
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        """Whether the stream has not ended yet."""
        return not self._over.is_set()

    def picture(self, layer: str) -> bytes | None:
        """Return a ``layer`` of the newest frame, ``"image"`` or ``"overlay"``, as JPEG."""
        return self._pictures.get(layer)

    def state(self, since: int = 0) -> dict[str, Any]:
        """Return the data of the page, with the timeline after frame number ``since``."""
        with self._lock:
            new = min(max(self._frames - since, 0), len(self._timeline))
            return {
                "stream": vars(self.stream.info),
                "frame": self._frames,
                "number": self._newest["number"] or self._frames,
                "confidence": self._newest["confidence"],
                "expert": self._newest["state"],
                "timeline": list(self._timeline)[len(self._timeline) - new :],
                "k": self._k,
                "fps": round(self._fps, 2),
                "paused": self._paused,
                "running": self.running,
                "messages": list(self._messages),
            }

    def enqueue(self, action: str, expert: int | None = None) -> bool:
        """Queue an action to run between two frames; return False if it cannot be queued."""
        if action in ("pause", "resume"):
            paused = action == "pause"
            return self._queue(f"adaptation {action}d", lambda: self._pause(paused))
        if action == "save":
            return self._queue(
                f"reservoir saved in {self.save_to}", lambda: self.stream.save(self.save_to)
            )
        if action == "reset" and expert is not None and 0 <= expert < self._k:
            return self._queue(f"expert {expert} is reset", lambda: self.stream.reset(expert))
        return False

    def _queue(self, done: str, act: Callable[[], object]) -> bool:
        try:
            self._actions.put_nowait((done, act))
        except queue.Full:
            return False
        if self._over.is_set():  # there is no next frame
            self._run_queued()
        return True

    def _pause(self, paused: bool) -> None:
        self.stream.pause(paused)
        self._paused = paused

    def _run(self) -> None:
        before = time.perf_counter()
        try:
            for frame in self.stream:
                self._run_queued()
                if self._stop.is_set():
                    break
                self._show(frame)
                now = time.perf_counter()
                rate, before = 1 / max(now - before, 1e-6), now
                share = _SMOOTHING if self._frames > 1 else 0.0
                self._fps = share * self._fps + (1 - share) * rate
            self._report("the stream has ended")
        except Exception as error:
            # The page shows the error, and serve raises it at the end.
            self.error = error
            _logger.error("the stream broke: %s: %s", type(error).__name__, error)
            self._report(f"the stream broke: {type(error).__name__}: {error}")
        self._over.set()
        self._run_queued()

    def _run_queued(self) -> None:
        """Run the queued actions. After the end of the stream, two threads may call this."""
        with self._acting:
            while not self._actions.empty():
                done, act = self._actions.get_nowait()
                try:
                    act()
                except Exception as error:
                    self._report(f"not done: {type(error).__name__}: {error}")
                else:
                    self._report(done)

    def _report(self, text: str) -> None:
        with self._lock:
            self._messages.append(f"frame {self._frames}: {text}")

    def _show(self, frame: LiveFrame) -> None:
        pictures = {"image": _jpeg(frame.image), "overlay": _jpeg(frame.overlay)}
        with self._lock:
            self._frames += 1
            self._k = frame.k
            self._newest = {name: getattr(frame, name) for name in self._newest}
            self._timeline.append(frame.expert)
            self._pictures = pictures
        if frame.opened:
            self._report(f"expert {frame.expert} is new")


def _jpeg(picture: np.ndarray) -> bytes:
    height, width = picture.shape[:2]
    if width > WIDTH:
        size = (WIDTH, round(height * WIDTH / width))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", picture)[1].tobytes()
