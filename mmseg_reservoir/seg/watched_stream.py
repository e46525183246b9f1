"""The frames of an inferencer as the live page wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..live.station import LiveFrame
from .frame_writer import FrameWriter
from .inferencer import FrameResult, ReservoirInferencer


class WatchedStream:
    """A `LiveStream`: frames, and what a viewer may do between them.

    Args:
        inferencer: What makes the frames, and is paused, reset and saved.
        frames: Its results.
        writer: What has written them, and has their overlays.
        wake: Ends the wait for a frame. Defaults to nothing, for frames that always come.
    """

    def __init__(
        self,
        inferencer: ReservoirInferencer,
        frames: Iterable[FrameResult],
        writer: FrameWriter,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self.inferencer = inferencer
        self.frames = frames
        self.writer = writer
        self.wake = wake

    def __iter__(self) -> Iterator[LiveFrame]:
        """Give the frames in their order."""
        for frame in self.frames:
            place = {"expert": frame.expert, "k": frame.k, "opened": frame.opened}
            yield LiveFrame(frame.image, self.writer.overlay(frame), **place)

    def stop(self) -> None:
        """Give no other frame than the one that is under way."""
        self.wake()

    def pause(self, paused: bool) -> None:
        """Stop adapting, or go on."""
        self.inferencer.freeze(paused)

    def reset(self, expert: int) -> None:
        """Let an expert begin anew, from the source."""
        self.inferencer.reset(expert)

    def save(self, folder: Path) -> None:
        """Save the reservoir."""
        self.inferencer.save(folder)
