"""Save the state of a run at intervals and on a signal to stop, and find the state to resume."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from ..errors import ReservoirError, WriteError, refusing
from ..io.state_files import TO_DO, read_state
from ..option_types import Count, Positive
from ..registry import checked
from .identity import check_identity
from .route_log import take_over_routes
from .state_folder import StateFolder
from .stop_signals import StopSignals
from .work_dir import describe_results, has_results, locked, remove_results

_logger = logging.getLogger(__name__)
_KIND = "run"


def saved_seed(work_dir: str | Path, resume: str) -> int | None:
    """Return the seed in the state to resume from; None without a state.

    Args:
        work_dir: Work directory of the run.
        resume: ``"auto"`` or the file of a state, as for :class:`RunSaver`.
    """
    if resume == "auto":
        newest = StateFolder(Path(work_dir) / "state").newest()
        header = {} if newest is None else newest[-1]
    else:
        header = read_state(resume)[1]
    return header.get("identity", {}).get("seed")


@checked
class RunSaver:
    """The states of one run; a context that locks the work directory for this process.

    Example:
        >>> with RunSaver(tmp_path, images=100) as saver:
        ...     state = saver.begin(identity={"seed": 0}) or {"sum": 0}
        ...     saver.save(0, lambda: state)
        ...     saver.finish()

    Args:
        work_dir: Folder of the results. States are in its folder ``state``.
        resume: ``"auto"`` resumes from the newest state, or starts at the first image without a
            state. A path resumes from that file. Defaults to None, a new run.
        overwrite: Whether to remove existing results from the folder. Defaults to False.
        minutes: Minutes between two states; None for no limit. Defaults to 10.
        images: Images between two states. Defaults to None, no limit.
        keep_mb: Megabytes up to which the last state of a complete run is kept. Defaults to 500.
        report: Function that receives messages for the user. Defaults to logging them.
    """

    def __init__(
        self,
        work_dir: str | Path,
        resume: str | None = None,
        overwrite: bool = False,
        minutes: Positive | None = 10.0,
        images: Count | None = None,
        keep_mb: float = 500.0,
        report: Callable[[str], object] = _logger.info,
    ) -> None:
        if resume is not None and overwrite:
            raise ReservoirError("--resume continues a run, --overwrite replaces it: give one")
        self.work_dir = Path(work_dir)
        self.resume, self.overwrite = resume, overwrite
        self.minutes, self.images, self.keep_mb = minutes, images, keep_mb
        self.report = report
        self.states = StateFolder(self.work_dir / "state")
        self._signals = StopSignals()
        self._open = ExitStack()
        self._header: dict[str, Any] = {}
        self._saved: tuple[float, int] | None = None  # time and number of images of the last state

    def __enter__(self) -> RunSaver:
        self._open.enter_context(locked(self.work_dir))
        if self.overwrite:
            remove_results(self.work_dir)
            self.states.clear()
        elif not self._resumes_here:
            self._refuse_existing_run()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def begin(self, identity: Mapping[str, Any]) -> Any | None:
        """Start to handle signals, and return the state to resume from, None for a new run.

        Raises:
            ReservoirError: If the state was saved by another run.
        """
        self._header = {"kind": _KIND, "identity": dict(identity)}
        saved = None if self.resume is None else self._find(self.resume)
        self._open.enter_context(self._signals)
        if saved is None:
            return None
        path, state, header = saved
        with refusing(f"{path} is not arranged as the state of a run", TO_DO):
            if header.get("kind") != _KIND:
                raise ReservoirError(
                    f"{path} is not the state of a run: give --resume a file of WORK_DIR/state"
                )
            check_identity(header["identity"], identity, path)
            if type(header["images"]) is not int or header["images"] < 0:
                raise ValueError(f"it counts {header['images']!r} images")
        if self._resumes_here:
            self.states.go_back_to(path)
        if header["images"]:
            take_over_routes(path.resolve().parent.parent, self.work_dir)
        else:
            remove_results(self.work_dir)  # the run starts at its first image again
        self._saved = time.monotonic(), header["images"]
        self.report(f"resumed after {header['images']} images, from {path}")
        return state

    def restoring(self) -> AbstractContextManager[None]:
        """Return a context that explains errors from loading the state of :meth:`begin`."""
        return refusing("the saved state does not fit this run", TO_DO)

    def after(self, images: int, take: Callable[[], Any], landmark: bool = False) -> None:
        """Save the state if it is due, and stop after a signal. Call this after every batch.

        Args:
            images: Number of images so far.
            take: Function that returns the state.
            landmark: Whether a state is always due, as at the end of a visit. Defaults to False.
        """
        if landmark or self._signals.caught is not None or self._is_due(images):
            self.save(images, take)
        if self._signals.caught is not None:
            self.report(f"stopped after {images} images: continue with --resume")
            self._signals.obey()

    def save(self, images: int, take: Callable[[], Any]) -> None:
        """Save the state after this number of images.

        A full disk does not end the run: the previous state is kept, and results may still fit.
        """
        try:
            self.states.save(images, take(), {**self._header, "images": images})
        except WriteError as error:
            if self._saved is None:
                raise
            _logger.error(
                "%s. The run continues; if it were killed now, it would be resumed after %d images",
                error,
                self._saved[1],
            )
            self._saved = time.monotonic(), self._saved[1]
        else:
            self._saved = time.monotonic(), images

    def finish(self) -> None:
        """Remove all states of a complete run, but keep the last one if it is small."""
        self.states.prune(1)
        for path in self.states.files():
            megabytes = path.stat().st_size / 1e6
            if megabytes > self.keep_mb:
                self.states.clear()
                self.report(
                    f"the last state has {megabytes:.0f} MB, more than keep_mb={self.keep_mb:g}, "
                    "and was removed"
                )

    @property
    def _resumes_here(self) -> bool:
        """Whether the state to resume from is in the work directory of this run."""
        if self.resume in (None, "auto"):
            return self.resume == "auto"
        return Path(self.resume).expanduser().resolve().parent == self.states.folder.resolve()

    def _is_due(self, images: int) -> bool:
        when, count = self._saved or (0.0, 0)
        by_time = self.minutes is not None and time.monotonic() - when >= 60 * self.minutes
        return by_time or (self.images is not None and images - count >= self.images)

    def _find(self, resume: str) -> tuple[Path, Any, dict[str, Any]] | None:
        if resume != "auto":
            path = Path(resume).expanduser()
            return path, *read_state(path)
        newest = self.states.newest()
        if newest is None:
            if has_results(self.work_dir):
                raise ReservoirError(
                    f"{self.work_dir} holds {describe_results(self.work_dir)}, but no state to "
                    "resume from: start again with --overwrite, or choose another --work-dir"
                )
            self.report(f"no state in {self.states.folder}: the run starts at its first image")
        return newest

    def _refuse_existing_run(self) -> None:
        begun = [path for path in self.states.files() if int(path.stem)]
        if has_results(self.work_dir):
            what = describe_results(self.work_dir)
        elif begun:
            what = f"a run that was saved after {int(begun[-1].stem)} images"
        else:
            return  # no state, or only that before the first image
        raise ReservoirError(
            f"{self.work_dir} holds {what}: continue it with --resume, replace it with "
            "--overwrite, or choose another folder with --work-dir"
        )
