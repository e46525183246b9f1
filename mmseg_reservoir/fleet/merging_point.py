"""The common reservoir of a fleet, which merges what each camera has learned."""

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
    """The answer to a camera that sent its experts.

    Args:
        snapshot: The merged experts; None if the camera has them already.
        numbering: The number in ``snapshot`` of each of the camera's experts.
        revisions: The number of the last change of each merged expert.
        refused: Why nothing was merged; None if it was. The camera continues with its experts.
    """

    snapshot: ReservoirSnapshot | None
    numbering: list[int]
    revisions: list[int]
    refused: str | None = None


class MergingPoint:
    """Merges the experts of each camera when they come: no camera waits for another one.

    Everything is saved before a camera gets its answer, so that the process can be killed at any
    moment. Exchanges are numbered. A camera that was killed before it saved the answer repeats its
    exchange, which is answered, but not merged a second time.

    Args:
        folder: The folder of the reservoir. An existing reservoir is continued.
        start_from: The reservoir that all cameras started with; None for the source model.
    """

    def __init__(
        self, folder: str | os.PathLike, start_from: str | os.PathLike | None = None
    ) -> None:
        self.folder = Path(folder)
        self.snapshot: ReservoirSnapshot | None = None
        self.revisions: list[int] = []
        self.exchanges: dict[str, dict[str, Any]] = {}
        """The last exchange of each camera."""
        if (self.folder / MANIFEST).is_file():
            self.snapshot = read_folder(self.folder)
            saved = self.snapshot.about[_FLEET]
            self.revisions, self.exchanges = saved["revisions"], saved["exchanges"]
        elif start_from is not None:
            self.snapshot, base = read_start(start_from)
            self.revisions = base.revisions

    def exchange(
        self, camera: str, number: int, snapshot: ReservoirSnapshot, base: Base | None
    ) -> Answer:
        """Merge what a camera has learned since its base, and return the experts of all.

        Args:
            camera: The name of the camera.
            number: The number of this exchange, larger than that of the one before.
            snapshot: Its experts. Only the first exchange needs their calibration.
            base: The base of its experts; None if it started with the source model.
        """
        done = self.exchanges.get(camera)
        if done is None or done["number"] != number:
            try:
                self._merge(camera, number, snapshot, base)
            except NoRoomError as error:
                return Answer(None, [], [], str(error))
            self._write()
        return self._answer(self.exchanges[camera])

    def _merge(
        self, camera: str, number: int, snapshot: ReservoirSnapshot, base: Base | None
    ) -> None:
        has_all = self.snapshot is None or (base is not None and base.revisions == self.revisions)
        if has_all:  # no other camera has sent anything since
            before = snapshot if self.snapshot is None else self.snapshot
            earlier = [] if self.snapshot is None else before.experts
            self.revisions = revised(earlier, self.revisions, snapshot.experts)
            self.snapshot = replace(snapshot, calibration=before.calibration)
            numbering = list(range(len(snapshot.experts)))
        else:
            assert self.snapshot is not None  # else has_all
            merged, self.revisions = merge_delta(
                self.snapshot, self.revisions, delta(snapshot, base), base
            )
            self.snapshot, numbering = merged.snapshot, merged.numbering
        self.exchanges[camera] = {
            "number": number,
            "numbering": numbering,
            "revisions": self.revisions,
            "has_all": has_all,
        }

    def _write(self) -> None:
        exchanges = {"revisions": self.revisions, "exchanges": self.exchanges}
        assert self.snapshot is not None  # after an exchange
        self.snapshot = replace(self.snapshot, about={**self.snapshot.about, _FLEET: exchanges})
        write_folder(self.snapshot, self.folder)

    def _answer(self, done: dict[str, Any]) -> Answer:
        unchanged = done["has_all"] and done["revisions"] == self.revisions
        # The camera has the calibration, which is many times as large as an expert.
        assert self.snapshot is not None  # after an exchange
        snapshot = None if unchanged else replace(self.snapshot, calibration=None)
        return Answer(snapshot, done["numbering"], self.revisions)


def read_start(folder: str | os.PathLike) -> tuple[ReservoirSnapshot, Base]:
    """A reservoir that a fleet begins with, and the base that its cameras have there."""
    snapshot = read_folder(folder)
    return snapshot, Base.of(snapshot, [0] * len(snapshot.experts))
