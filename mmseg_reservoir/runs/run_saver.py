"""Saves where a run is, every so often and when it is told to stop, and finds where to go on."""

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
    """Return the seed of the run that ``resume`` continues; None if it begins at its start.

    Args:
        work_dir: The work directory of the run.
        resume: ``"auto"`` or the file of a state, as for :class:`RunSaver`.
    """
    if resume == "auto":
        found = StateFolder(Path(work_dir) / "state").newest()
        header = {} if found is None else found[-1]
    else:
        header = read_state(resume)[1]
    return header.get("identity", {}).get("seed")


@checked
class RunSaver:
    """The states of one run; a context within which the work directory is this process's alone.

    Example:
        >>> with RunSaver(tmp_path, images=100) as saver:
        ...     state = saver.begin(identity={"seed": 0}) or {"sum": 0}
        ...     saver.save(0, lambda: state)
        ...     saver.finish()

    Args:
        work_dir: Where the results are; states go to its folder ``state``.
        resume: Go on: with the newest state there (``"auto"``; from the start if there is none),
            or with the state of this file. None to begin.
        overwrite: Begin although the folder holds results, which are removed.
        minutes: Time between two states; None for any.
        images: Images between two states; None for any.
        keep_mb: When a run is complete its last state is kept if it has at most so many megabytes.
        say: Takes what the user should know.
    """

    def __init__(
        self,
        work_dir: str | Path,
        resume: str | None = None,
        overwrite: bool = False,
        minutes: Positive | None = 10.0,
        images: Count | None = None,
        keep_mb: float = 500.0,
        say: Callable[[str], object] = _logger.info,
    ) -> None:
        if resume is not None and overwrite:
            raise ReservoirError("--resume goes on with a run, --overwrite replaces it: give one")
        self.work_dir = Path(work_dir)
        self.resume, self.overwrite = resume, overwrite
        self.minutes, self.images, self.keep_mb = minutes, images, keep_mb
        self.say = say
        self.states = StateFolder(self.work_dir / "state")
        self._signals = StopSignals()
        self._open = ExitStack()
        self._header: dict[str, Any] = {}
        self._saved: tuple[float, int] | None = None  # when, and after how many images

    def __enter__(self) -> RunSaver:
        self._open.enter_context(locked(self.work_dir))
        if self.overwrite:
            remove_results(self.work_dir)
            self.states.clear()
        elif not self._goes_on_here:
            self._refuse_what_is_there()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def begin(self, identity: Mapping[str, Any]) -> Any | None:
        """The state to go on with, None for the start; from here on signals wait for it.

        Raises:
            ReservoirError: If the state was saved by a run that this one is not.
        """
        self._header = {"kind": _KIND, "identity": dict(identity)}
        found = None if self.resume is None else self._find(self.resume)
        self._open.enter_context(self._signals)
        if found is None:
            return None
        path, state, header = found
        with refusing(f"{path} is not arranged as the state of a run", TO_DO):
            if header.get("kind") != _KIND:
                raise ReservoirError(
                    f"{path} is not the state of a run: --resume takes one of those"
                )
            check_identity(header["identity"], identity, path)
            if type(header["images"]) is not int or header["images"] < 0:
                raise ValueError(f"it counts {header['images']!r} images")
        if self._goes_on_here:
            self.states.go_back_to(path)
        if header["images"]:
            take_over_routes(path.resolve().parent.parent, self.work_dir)
        else:
            remove_results(self.work_dir)  # the run starts at its first image again
        self._saved = time.monotonic(), header["images"]
        self.say(f"going on after {header['images']} images, with {path}")
        return state

    def restoring(self) -> AbstractContextManager[None]:
        """Within, explain errors that come of what :meth:`begin` returned."""
        return refusing("the saved state does not fit this run", TO_DO)

    def after(self, images: int, take: Callable[[], Any], landmark: bool = False) -> None:
        """To be called after every batch: save the state if it is time to, stop if told to.

        Args:
            images: How many the run has seen.
            take: Makes the state.
            landmark: Whether it is always time to, as at the end of a visit.
        """
        if landmark or self._signals.caught is not None or self._is_due(images):
            self.save(images, take)
        if self._signals.caught is not None:
            self.say(f"stopped after {images} images: --resume goes on")
            self._signals.obey()

    def save(self, images: int, take: Callable[[], Any]) -> None:
        """Save the state after so many images.

        A disk that is full in the middle of a run does not end it: what was saved before is still
        there, and results may yet be written.
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
        """The run is complete: keep its last state, unless that is large."""
        self.states.prune(1)
        for path in self.states.files():
            megabytes = path.stat().st_size / 1e6
            if megabytes > self.keep_mb:
                self.states.clear()
                self.say(
                    f"the last state has {megabytes:.0f} MB, more than keep_mb={self.keep_mb:g}, "
                    "and was removed"
                )

    @property
    def _goes_on_here(self) -> bool:
        """Whether the state to go on with is one of this work directory."""
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
        found = self.states.newest()
        if found is None:
            if has_results(self.work_dir):
                raise ReservoirError(
                    f"{self.work_dir} holds {describe_results(self.work_dir)}, but no state to go "
                    "on with: begin anew with --overwrite, or choose another --work-dir"
                )
            self.say(f"no state in {self.states.folder}: the run begins at its start")
        return found

    def _refuse_what_is_there(self) -> None:
        begun = [path for path in self.states.files() if int(path.stem)]
        if has_results(self.work_dir):
            what = describe_results(self.work_dir)
        elif begun:
            what = f"a run that was saved after {int(begun[-1].stem)} images"
        else:
            return  # at most the state before the first image
        raise ReservoirError(
            f"{self.work_dir} holds {what}: go on with it by --resume, replace it by --overwrite, "
            "or choose another folder with --work-dir"
        )
