"""The stream of one camera in a fleet, from any input of ``reservoir adapt``."""

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
    """The description of a camera's stream, from which any process can open it.

    ``options`` are options of the :class:`ReservoirInferencer`, ``written`` options of the
    :class:`FrameWriter`.
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
        options = {**meta, "fps": frames.fps, "lines": lines, **self.written}
        writer = FrameWriter(self.folder, frames.name, **options)
        return InferencerFootage(inferencer, frames, writer)


class InferencerFootage:
    """An open stream that implements ``Footage`` of ``fleet/camera_run.py``."""

    def __init__(
        self, inferencer: ReservoirInferencer, source: FrameSource, writer: FrameWriter
    ) -> None:
        self.inferencer, self.source, self.writer = inferencer, source, writer
        self.pipeline = inferencer.model.pipeline
        self.metadata = {"options": inferencer.plan.options}

    def frames(self, start: int) -> Iterator[tuple[int, InputFrame]]:
        """Yield the frames from a position; a camera continues with its current frame."""
        for frame in self.source.since(start):
            yield frame.index, frame

    def adapt(self, frame: InputFrame) -> None:
        """Segment a frame, adapt to it, and write the results."""
        self.writer.write(self.inferencer.segment(frame), **self.source.losses())

    def close(self) -> None:
        self.writer.close()
