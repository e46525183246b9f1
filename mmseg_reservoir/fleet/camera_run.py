"""One camera of a fleet: a resumable stream that exchanges experts with a merging point."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ..core.reservoir_pipeline import ReservoirPipeline
from ..errors import refusing
from ..io.state_files import TO_DO
from ..option_types import Count
from ..registry import checked
from ..runs.generators import load_generators, save_generators
from ..runs.identity import check_identity
from ..runs.state_folder import StateFolder
from ..runs.work_dir import locked
from ..snapshot import save_reservoir
from ..snapshot.exchange import Base, load_merged
from ..snapshot.reservoir_snapshot import ReservoirSnapshot, take_snapshot
from .merging_point import Answer, read_start

_logger = logging.getLogger(__name__)

Exchange = Callable[[str, int, ReservoirSnapshot, Base | None], Answer]
"""``MergingPoint.exchange``, called directly or in another process."""


class Footage(Protocol):
    """An open stream, and the pipeline that adapts to it."""

    pipeline: ReservoirPipeline
    metadata: dict[str, Any]
    """The options of the pipeline, as plain JSON values."""

    def frames(self, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the frames from position ``start`` on, each after its position."""

    def adapt(self, frame: Any) -> None:
        """Adapt to a frame, and write its result."""

    def close(self) -> None:
        """Complete and close the files of results."""


class FootageOrder(Protocol):
    """Plain data from which a stream can be opened in another process."""

    def open(self, start_from: str | None, lines: int) -> Footage:
        """Open the stream.

        Args:
            start_from: Folder of the reservoir to start with; None for the source model.
            lines: Number of frames that an earlier process has written.
        """


@checked
@dataclass
class CameraRun:
    """Runs the stream of one camera, saves its state, and exchanges experts at intervals.

    Args:
        name: Name of the camera.
        folder: Folder of its states and results.
        order: How to open its stream.
        start_from: Folder of the reservoir to start with. Defaults to None, the source model.
        merge_every: Frames between two exchanges. Defaults to 100.
        save_every: Frames between two states. Defaults to 50.
    """

    name: str
    folder: str | os.PathLike
    order: FootageOrder
    start_from: str | None = None
    merge_every: Count = 100
    save_every: Count = 50

    def __post_init__(self) -> None:
        self._states = StateFolder(Path(self.folder) / "state")
        self._position: dict[str, Any] = {
            "frames": 0,  # frames that it adapted to
            "next": 0,  # position of the next frame
            "exchanges": 0,
            "waiting": False,  # whether an exchange has no answer yet
            "finished": False,
            "refused": None,
        }
        self._base: Base | None = None

    def run(self, exchange: Exchange | None = None) -> dict[str, Any]:
        """Run to the end of the stream; without ``exchange`` no experts are shared.

        Returns:
            The number of ``frames``, of experts ``k`` and of ``exchanges``. ``refused`` is the
            reason why the last exchange was refused, or None.
        """
        with locked(Path(self.folder)):
            saved = self._states.newest()
            lines = 0 if saved is None else saved[1]["position"]["frames"]
            self._footage = self.order.open(self.start_from, lines)
            try:
                self._begin(saved)
                if not self._position["finished"]:
                    self._go(exchange)
            finally:
                self._footage.close()
            result = {name: self._position[name] for name in ("frames", "exchanges", "refused")}
            return {**result, "k": len(self._pipeline.reservoir)}

    @property
    def _pipeline(self) -> ReservoirPipeline:
        return self._footage.pipeline

    def _begin(self, saved: tuple[Path, Any, dict[str, Any]] | None) -> None:
        if saved is None:
            if self.start_from is not None:
                self._base = read_start(self.start_from)[1]
            return
        path, state, header = saved
        with refusing(f"{path} does not fit this stream", TO_DO):
            check_identity(header["identity"], self._identity(), path)
            self._pipeline.load_state_dict(state["pipeline"])
            load_generators(state["generators"])
            self._position = state["position"]
            self._base = None if state["base"] is None else Base(**state["base"])
        _logger.info("%s resumes after %d frames", self.name, self._position["frames"])

    def _go(self, exchange: Exchange | None) -> None:
        position = self._position
        if position["waiting"] and exchange is not None:
            self._trade(exchange)
        for index, frame in self._footage.frames(position["next"]):
            self._footage.adapt(frame)
            position["frames"] += 1
            position["next"] = index + 1
            if exchange is not None and position["frames"] % self.merge_every == 0:
                self._begin_trade(exchange)
            elif position["frames"] % self.save_every == 0:
                self._save()
        if exchange is not None and position["frames"] % self.merge_every:
            self._begin_trade(exchange)
        save_reservoir(self._pipeline, Path(self.folder) / "reservoir", self._footage.metadata)
        position["finished"] = True
        self._save()

    def _begin_trade(self, exchange: Exchange) -> None:
        self._position["exchanges"] += 1
        self._position["waiting"] = True
        self._save()  # a run that resumes from here repeats the exchange with the same number
        self._trade(exchange)

    def _trade(self, exchange: Exchange) -> None:
        snapshot = take_snapshot(self._pipeline, self._footage.metadata)
        if self._base is not None:
            snapshot = replace(snapshot, calibration=None)  # the merging point has it
        answer = exchange(self.name, self._position["exchanges"], snapshot, self._base)
        self._position["refused"] = answer.refused
        if answer.refused is not None:
            _logger.warning("%s keeps its experts to itself: %s", self.name, answer.refused)
        elif answer.snapshot is None:
            self._base = Base.of(snapshot, answer.revisions)
        else:
            load_merged(answer.snapshot, self._pipeline, answer.numbering)
            self._base = Base.of(take_snapshot(self._pipeline, {}), answer.revisions)
        self._position["waiting"] = False
        self._save()

    def _save(self) -> None:
        state = {
            "pipeline": self._pipeline.state_dict(),
            "generators": save_generators(),
            "position": dict(self._position),
            "base": None if self._base is None else self._base.to_json(),
        }
        header = {"kind": "camera", "identity": self._identity()}
        self._states.save(self._position["frames"], state, header)

    def _identity(self) -> dict[str, Any]:
        return {"camera": self.name, "start_from": self.start_from, **self._footage.metadata}
