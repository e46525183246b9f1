"""The stream of one camera of a fleet, as ``reservoir adapt`` takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import ReservoirError
from .frame_source import FrameSource, InputFrame
from .frame_writer import FrameWriter
from .frames import open_frames
from .inferencer import ReservoirInferencer


@dataclass(frozen=True)
class InferencerOrder:
    """How to open a stream, in whatever process.

    Args:
        source: What :func:`open_frames` opens.
        folder: Where the results go.
        model: Of the :class:`ReservoirInferencer`, and all its other options.
        every: Take each so-many-th frame.
        written: Options of the :class:`FrameWriter`.
    """

    source: str
    folder: str | os.PathLike
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    every: int = 1
    written: dict[str, Any] = field(default_factory=dict)

    def open(self, start_from: str | None, lines: int) -> InferencerFootage:
        """Load the model and open the stream."""
        frames = open_frames(self.source, self.every)
        inferencer = ReservoirInferencer(self.model, start_from=start_from, **self.options)
        if not inferencer.has_reservoir:
            raise ReservoirError(
                f"{self.model} adapts without a reservoir, so there are no experts to share: give "
                "--cfg-options reservoir.preset=robust"
            )
        meta = {name: inferencer.dataset_meta[name] for name in ("classes", "palette")}
        place = {"folder": self.folder, "name": frames.name, **meta}
        writer = FrameWriter(**place, fps=frames.fps, lines=lines, **self.written)
        return InferencerFootage(inferencer, frames, writer)


class InferencerFootage:
    """A stream that is open: a ``Footage`` (``scale/camera_run.py``)."""

    def __init__(
        self, inferencer: ReservoirInferencer, source: FrameSource, writer: FrameWriter
    ) -> None:
        self.inferencer, self.source, self.writer = inferencer, source, writer
        self.pipeline = inferencer.model.pipeline
        self.about = {"options": inferencer.plan.options}

    def frames(self, start: int) -> Iterator[tuple[int, InputFrame]]:
        """The frames from that position on; a camera goes on with what it sees now."""
        for frame in self.source.since(start):
            yield frame.index, frame

    def adapt(self, frame: InputFrame) -> None:
        """Segment a frame while adapting, and write it."""
        self.writer.write(self.inferencer.segment(frame), **self.source.losses())

    def close(self) -> None:
        """Finish what is written."""
        self.writer.close()
