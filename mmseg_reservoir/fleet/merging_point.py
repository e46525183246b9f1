"""The one reservoir of a fleet: what cameras have learned comes in, what all know goes out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..snapshot.exchange import Base, delta, merge_delta, revised
from ..snapshot.folder import MANIFEST, read_folder, write_folder
from ..snapshot.merge import NoRoomError
from ..snapshot.reservoir_snapshot import ReservoirSnapshot

_FLEET = "fleet"
"""The key of the exchanges in the manifest of a reservoir."""


@dataclass(frozen=True)
class Answer:
    """What a camera gets for its experts.

    Args:
        contents: The experts of all, to be taken over; None if it has them already.
        numbering: The number there of each of its experts.
        revisions: The number of the last change of each expert there.
        refused: Why nothing was merged; None if it was. The camera continues with its experts.
    """

    contents: ReservoirSnapshot | None
    numbering: list[int]
    revisions: list[int]
    refused: str | None = None


class MergingPoint:
    """Merges what comes, when it comes: no camera waits for another one's frames.

    All that it knows is in its folder before a camera gets its answer, so that it may be killed at
    any moment. An exchange has a number: one that comes again (since the camera was killed before
    it could save the answer) is answered, but not merged a second time.

    Args:
        folder: Of the reservoir. An existing one is continued.
        start_from: The reservoir that all cameras began with; None if with the source model.
    """

    def __init__(
        self, folder: str | os.PathLike, start_from: str | os.PathLike | None = None
    ) -> None:
        self.folder = Path(folder)
        self.contents: ReservoirSnapshot | None = None
        self.revisions: list[int] = []
        self.exchanges: dict[str, dict[str, Any]] = {}
        """The last one of each camera."""
        if (self.folder / MANIFEST).is_file():
            self.contents = read_folder(self.folder)
            saved = self.contents.about[_FLEET]
            self.revisions, self.exchanges = saved["revisions"], saved["exchanges"]
        elif start_from is not None:
            self.contents, base = read_start(start_from)
            self.revisions = base.revisions

    def exchange(
        self, camera: str, number: int, contents: ReservoirSnapshot, base: Base | None
    ) -> Answer:
        """Merge what a camera has learned since its base, and return the experts of all.

        Args:
            camera: Its name.
            number: Of this exchange; larger than that of its exchange before.
            contents: Its experts. Their calibration may be missing, unless it is the first one.
            base: What it took over last; None if it began with the source model.
        """
        done = self.exchanges.get(camera)
        if done is None or done["number"] != number:
            try:
                self._merge(camera, number, contents, base)
            except NoRoomError as error:
                return Answer(None, [], [], str(error))
            self._write()
        return self._answer(self.exchanges[camera])

    def _merge(
        self, camera: str, number: int, contents: ReservoirSnapshot, base: Base | None
    ) -> None:
        has_all = self.contents is None or (base is not None and base.revisions == self.revisions)
        if has_all:  # nobody else has come since: what the camera has is what all know
            before = contents if self.contents is None else self.contents
            earlier = [] if self.contents is None else before.experts
            self.revisions = revised(earlier, self.revisions, contents.experts)
            self.contents = replace(contents, calibration=before.calibration)
            numbering = list(range(len(contents.experts)))
        else:
            assert self.contents is not None  # else has_all
            merged, self.revisions = merge_delta(
                self.contents, self.revisions, delta(contents, base), base
            )
            self.contents, numbering = merged.contents, merged.numbering
        self.exchanges[camera] = {
            "number": number,
            "numbering": numbering,
            "revisions": self.revisions,
            "has_all": has_all,
        }

    def _write(self) -> None:
        exchanges = {"revisions": self.revisions, "exchanges": self.exchanges}
        assert self.contents is not None  # after an exchange
        self.contents = replace(self.contents, about={**self.contents.about, _FLEET: exchanges})
        write_folder(self.contents, self.folder)

    def _answer(self, done: dict[str, Any]) -> Answer:
        unchanged = done["has_all"] and done["revisions"] == self.revisions
        # The camera has the calibration, which is many times as large as an expert.
        assert self.contents is not None  # after an exchange
        contents = None if unchanged else replace(self.contents, calibration=None)
        return Answer(contents, done["numbering"], self.revisions)


def read_start(folder: str | os.PathLike) -> tuple[ReservoirSnapshot, Base]:
    """A reservoir that a fleet begins with, and the base that its cameras have there."""
    contents = read_folder(folder)
    return contents, Base.of(contents, [0] * len(contents.experts))
