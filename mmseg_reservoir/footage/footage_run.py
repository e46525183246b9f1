"""Segment and write a stream from its first frame or from a saved state."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from ..live.worker import LiveFrame, StreamInfo
from ..runs.generators import load_generators, save_generators
from ..runs.identity import check_identity
from ..runs.record import strict_json
from ..runs.state_folder import StateFolder
from ..runs.work_dir import locked
from ..style.encoder import weight_digest
from .frame_source import FrameResult, FrameSource
from .frame_writer import STREAM, FrameWriter
from .inferencer import ReservoirInferencer

_KIND = "footage"


class FootageRun:
    """A run on a stream of frames, which writes results and states; a context that locks a folder.

    Iterate to run; each result is yielded once it is written. A state is saved before the first
    frame, every N frames, and at the end, after all files are finished. A resumed run removes the
    results after its state, and processes those frames again.

    Args:
        inferencer: Inferencer with model and reservoir.
        frames: Stream of frames.
        folder: Folder of all results, created at the first frame. States are in its ``state``.
        save_every: Number of frames between two states. Defaults to 300.
        resume: Whether to resume from the newest state in the folder. Defaults to False.
        identity: Plain JSON values that must not differ when the run is resumed. Defaults to none.
        **written: Options of the :class:`FrameWriter`.
    """

    writer: FrameWriter
    complete = False
    """Whether the stream has ended."""

    def __init__(
        self,
        inferencer: ReservoirInferencer,
        frames: FrameSource,
        folder: str | os.PathLike,
        save_every: int = 300,
        resume: bool = False,
        identity: Mapping[str, Any] | None = None,
        **written: Any,
    ) -> None:
        self.inferencer, self.frames, self.save_every = inferencer, frames, save_every
        self.folder = Path(folder).expanduser()
        self.reservoir = self.folder / "reservoir"
        self._resume, self._written = resume, written
        self._states = StateFolder(self.folder / "state")
        facts = {"stream": frames.name, "every": frames.every, "options": inferencer.plan.options}
        identity = {**(identity or {}), **facts, "weights": weight_digest(inferencer.model)}
        self._header = {"kind": _KIND, "identity": json.loads(strict_json(identity))}
        self._position = {"frames": 0, "next": 0, "segments": 0}
        self._begun = False
        self._open = ExitStack()

    def __enter__(self) -> FootageRun:
        with self._open:
            saved = self._find() if self._resume else None
            lines = {} if saved is None else self._restore(*saved)
            meta = self.inferencer.dataset_meta
            options = {"fps": self.frames.fps, **self._written, **lines}
            self.writer = FrameWriter(
                self.folder, self.frames.name, meta["palette"], meta["classes"], **options
            )
            self._open.push(self.writer)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def __iter__(self) -> Iterator[FrameResult]:
        generators = save_generators()
        for frame in self.frames.since(self._position["next"]):
            result = self.inferencer.segment(frame)
            if not self._begun:  # create no folder before a frame is segmented
                self._open.enter_context(locked(self.folder))
                self._begun = True
                self._save({"pipeline": None, "generators": generators})
            self.writer.write(result, **self.frames.losses())
            self._position["frames"] += 1
            self._position["next"] = frame.index + 1
            if self.count % self.save_every == 0:
                self.save()
            yield result
        self.save()
        self.complete = not self.frames.stopping.is_set()

    @property
    def count(self) -> int:
        """Number of written frames, including those of earlier processes."""
        return self._position["frames"]

    def experts(self) -> list[int]:
        """Return the expert of each written frame."""
        if not self.count:
            return []
        lines = (self.folder / STREAM).read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["expert"] for line in lines]

    def save(self) -> None:
        """Finish the files, and save the reservoir and the state."""
        if not self._begun:
            return
        self._position["segments"] = self.writer.close()  # the next frame opens another
        pipeline = self.inferencer.model.pipeline.state_dict()
        self._save({"pipeline": pipeline, "generators": save_generators()})

    def _save(self, state: dict[str, Any]) -> None:
        try:
            if self.count and self.inferencer.has_reservoir:
                self.inferencer.save(self.reservoir)
            state = {**state, "position": dict(self._position)}
            self._states.save(self.count, state, self._header)
        except OSError as error:
            raise ReservoirError(
                f"cannot save the state of frame {self.count} in {self.folder} "
                f"({error.strerror or error}): make room, then continue with --resume"
            ) from error

    def _find(self) -> tuple[Path, Any, dict[str, Any]] | None:
        if not self.folder.is_dir():
            return None  # the run was killed before its first frame
        self._open.enter_context(locked(self.folder))
        newest = self._states.newest()
        if newest is None and (self.folder / STREAM).exists():
            raise ReservoirError(
                f"{self.folder} holds a stream without a saved state: choose another --out"
            )
        return newest

    def _restore(self, path: Path, state: Any, header: Mapping[str, Any]) -> dict[str, int]:
        if header.get("kind") != _KIND:
            raise ReservoirError(f"{path} is not the state of a stream: choose another --out")
        now = self._header["identity"]
        check_identity(header["identity"], now, path, "choose another --out")
        if state["pipeline"] is not None:  # None before the first frame, as in a new run
            self.inferencer.model.pipeline.load_state_dict(state["pipeline"])
        load_generators(state["generators"])
        self._position = dict(state["position"])
        self._begun = True
        return {"lines": self.count, "segments": self._position["segments"]}


class LiveFootage:
    """A `LiveStream` of a run and its results, for the live page."""

    def __init__(self, run: FootageRun, results: Iterable[FrameResult]) -> None:
        self.run, self.results = run, results
        meta = run.inferencer.dataset_meta
        classes = dict(zip(meta["classes"], meta["palette"], strict=False))
        self.info = StreamInfo(run.frames.name, run.frames.total, classes)

    def __iter__(self) -> Iterator[LiveFrame]:
        return map(self._live_frame, self.results)

    def _live_frame(self, frame: FrameResult) -> LiveFrame:
        return LiveFrame(
            frame.image,
            self.run.writer.overlay(frame),
            expert=frame.expert,
            k=frame.k,
            opened=frame.opened,
            number=frame.index // self.run.frames.every + 1,
            confidence=float(frame.confidence.mean()),
            state=self.run.inferencer.expert_state(frame.expert),
        )

    def stop(self) -> None:
        self.run.frames.stop()

    def pause(self, paused: bool) -> None:
        self.run.inferencer.freeze(paused)

    def reset(self, expert: int) -> None:
        self.run.inferencer.reset(expert)

    def save(self, folder: Path) -> None:
        self.run.inferencer.save(folder)
