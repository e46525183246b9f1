"""The frames of an inferencer as the live page wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..live.worker import LiveFrame, StreamInfo
from .frame_source import FrameSource
from .frame_writer import FrameWriter
from .inferencer import FrameResult, ReservoirInferencer


class WatchedStream:
    """A `LiveStream`: frames, and what a viewer may do between them.

    Args:
        inferencer: What makes the frames, and is paused, reset and saved.
        frames: Its results.
        writer: What has written them, and has their overlays.
        source: Source of the frames, which knows how many there are and can be stopped. Defaults to
            None, for frames that always come.
    """

    def __init__(
        self,
        inferencer: ReservoirInferencer,
        frames: Iterable[FrameResult],
        writer: FrameWriter,
        source: FrameSource | None = None,
    ) -> None:
        self.inferencer = inferencer
        self.frames = frames
        self.writer = writer
        meta = inferencer.dataset_meta
        self.info = StreamInfo(
            writer.name,
            None if source is None else source.total,
            dict(zip(meta["classes"], meta["palette"], strict=False)),
        )
        self.source = source
        self._every = 1 if source is None else source.every

    def __iter__(self) -> Iterator[LiveFrame]:
        """Give the frames in their order."""
        for frame in self.frames:
            yield LiveFrame(
                frame.image,
                self.writer.overlay(frame),
                expert=frame.expert,
                k=frame.k,
                opened=frame.opened,
                number=frame.index // self._every + 1,
                confidence=float(frame.confidence.mean()),
                state=self.inferencer.expert_state(frame.expert),
            )

    def stop(self) -> None:
        """Give no other frame than the one that is under way."""
        if self.source is not None:
            self.source.stop()

    def pause(self, paused: bool) -> None:
        """Stop adapting, or go on."""
        self.inferencer.freeze(paused)

    def reset(self, expert: int) -> None:
        """Let an expert begin anew, from the source."""
        self.inferencer.reset(expert)

    def save(self, folder: Path) -> None:
        """Save the reservoir."""
        self.inferencer.save(folder)
