"""Runs a stream in a thread and keeps what there is to see of it; no web in here."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np

_logger = logging.getLogger(__name__)

TIMELINE = 1200
"""Frames whose expert the page shows."""
WIDTH = 960
"""Of the pictures that are sent, at most."""
_MESSAGES = 20
_SMOOTHING = 0.9  # of the frames per second


@dataclass(frozen=True)
class LiveFrame:
    """One frame of a stream, after the model saw it.

    Args:
        image: The frame, BGR, ``(H, W, 3)``, bytes.
        overlay: Its labels in color over it, in the same form.
        expert: Which one adapted.
        k: How many there are.
        opened: Whether it is new.
        number: Position of the frame in the stream, from 1; None counts the frames seen.
        confidence: Mean probability of the labels, in [0, 1]; None if it is not known.
        state: State of the expert (see `AdaptationPipeline.expert_state`).
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
    """What the page shows of a stream as a whole.

    Args:
        name: Its name.
        total: Number of its frames; None if it is not known.
        classes: RGB of each class by its name.
    """

    name: str = "Live adaptation"
    total: int | None = None
    classes: Mapping[str, Sequence[int]] = field(default_factory=dict)


class LiveStream(Protocol):
    """What can be served: frames, and three things that a viewer may do between them.

    All but :meth:`stop` are called from one thread, never two at a time.
    """

    info: StreamInfo

    def __iter__(self) -> Iterator[LiveFrame]:
        """The frames as they are done."""

    def stop(self) -> None:
        """Do not wait for another frame."""

    def pause(self, paused: bool) -> None:
        """Stop adapting, or go on; frames still come."""

    def reset(self, expert: int) -> None:
        """Let an expert begin anew, from the source."""

    def save(self, folder: Path) -> None:
        """Save the reservoir."""


class NewestFrame(NamedTuple):
    """The newest frame as it is sent."""

    number: int
    pictures: dict[str, bytes]
    """JPEGs, ``image`` and ``overlay``."""


class StreamWorker:
    """Runs a stream and remembers the newest frame, the experts so far, and what was said.

    Args:
        stream: What to run.
        save_to: Where a viewer's save goes: nobody outside says where to write.
    """

    def __init__(self, stream: LiveStream, save_to: Path) -> None:
        self.stream = stream
        self.save_to = save_to
        self._shown: NewestFrame | None = None
        self._frames = 0
        self._k, self._fps, self._paused = 1, 0.0, False
        self._newest: dict[str, Any] = {"number": 0, "confidence": None, "state": {}}
        self._timeline: deque[int] = deque(maxlen=TIMELINE)
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        self._wishes: queue.Queue[tuple[str, Callable[[], object]]] = queue.Queue(maxsize=16)
        self._lock, self._acting = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live stream", daemon=True)
        self.error: BaseException | None = None
        """Why the stream broke; None if it did not."""

    def start(self) -> None:
        """Begin with the first frame."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """End after the frame that is under way."""
        self._stop.set()
        self.stream.stop()
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        """Whether frames still come."""
        return not self._over.is_set()

    def picture(self, layer: str) -> bytes | None:
        """The newest frame as a JPEG; None before the first."""
        shown = self._shown
        return None if shown is None else shown.pictures[layer]

    def state(self, since: int = 0) -> dict[str, Any]:
        """What the page shows; of the timeline only what came after frame number ``since``."""
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

    def wish(self, action: str, expert: int | None = None) -> bool:
        """Ask for an action between two frames; False if there is none such, or no such expert."""
        if action in ("pause", "resume"):
            paused = action == "pause"
            return self._queue(f"adaptation {action}d", lambda: self._pause(paused))
        if action == "save":
            return self._queue(
                f"reservoir saved in {self.save_to}", lambda: self.stream.save(self.save_to)
            )
        if action == "reset" and expert is not None and 0 <= expert < self._k:
            return self._queue(f"expert {expert} begins anew", lambda: self.stream.reset(expert))
        return False

    def _queue(self, done: str, act: Callable[[], object]) -> bool:
        try:
            self._wishes.put_nowait((done, act))
        except queue.Full:
            return False
        if self._over.is_set():  # no frame will come, between which it could be done
            self._fulfil()
        return True

    def _pause(self, paused: bool) -> None:
        self.stream.pause(paused)
        self._paused = paused

    def _run(self) -> None:
        before = time.perf_counter()
        try:
            for frame in self.stream:
                self._fulfil()
                if self._stop.is_set():
                    break
                self._show(frame)
                now = time.perf_counter()
                rate, before = 1 / max(now - before, 1e-6), now
                share = _SMOOTHING if self._frames > 1 else 0.0
                self._fps = share * self._fps + (1 - share) * rate
            self._say("the stream has ended")
        except Exception as error:
            # The server tells it to its viewers, and to whoever started it when it ends.
            self.error = error
            _logger.error("the stream broke: %s: %s", type(error).__name__, error)
            self._say(f"the stream broke: {type(error).__name__}: {error}")
        self._over.set()
        self._fulfil()

    def _fulfil(self) -> None:
        """Do what is waiting; after the end two threads may come here."""
        with self._acting:
            while not self._wishes.empty():
                done, act = self._wishes.get_nowait()
                try:
                    act()
                except Exception as error:
                    self._say(f"not done: {type(error).__name__}: {error}")
                else:
                    self._say(done)

    def _say(self, text: str) -> None:
        with self._lock:
            self._messages.append(f"frame {self._frames}: {text}")

    def _show(self, frame: LiveFrame) -> None:
        pictures = {"image": _jpeg(frame.image), "overlay": _jpeg(frame.overlay)}
        with self._lock:
            self._frames += 1
            self._k = frame.k
            self._newest = {name: getattr(frame, name) for name in self._newest}
            self._timeline.append(frame.expert)
            self._shown = NewestFrame(self._frames, pictures)
        if frame.opened:
            self._say(f"expert {frame.expert} is new")


def _jpeg(picture: np.ndarray) -> bytes:
    height, width = picture.shape[:2]
    if width > WIDTH:
        size = (WIDTH, round(height * WIDTH / width))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", picture)[1].tobytes()
