"""The common reservoir of a fleet: it merges the experts of cameras and returns the result."""

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
"""Key of the exchanges in the manifest of the reservoir."""


@dataclass(frozen=True)
class Answer:
    """The answer to an exchange of a camera.

    Args:
        snapshot: The common reservoir to take over; None if the camera already has its experts.
        numbering: Index in the common reservoir of each of the camera's experts.
        revisions: Number of the last change of each expert of the common reservoir.
        refused: Reason why nothing was merged. The camera then keeps its experts. Defaults to
            None: they were merged.
    """

    snapshot: ReservoirSnapshot | None
    numbering: list[int]
    revisions: list[int]
    refused: str | None = None


class MergingPoint:
    """Merges the experts of each camera as they arrive; no camera waits for frames of another.

    Its state is written to its folder before it answers, so it may be killed at any time. Each
    exchange has a number. A camera that was killed before it saved the answer repeats the exchange
    with the same number. It then gets an answer, but nothing is merged a second time.

    Args:
        folder: Folder of the reservoir. An existing one is continued.
        start_from: Folder of the reservoir that all cameras started with. Defaults to None, the
            source model.
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
        """Merge what a camera has learned since its base, and return the common reservoir.

        Args:
            camera: Name of the camera.
            number: Number of the exchange, larger than that of the camera's previous exchange.
            snapshot: The camera's reservoir. Only the first exchange needs a calibration.
            base: What the camera took over last; None if it started with the source model.
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
        if has_all:  # no exchange since: the camera's experts are the newest
            before = snapshot if self.snapshot is None else self.snapshot
            earlier = [] if self.snapshot is None else before.experts
            self.revisions = revised(earlier, self.revisions, snapshot.experts)
            self.snapshot = replace(snapshot, calibration=before.calibration)
            numbering = list(range(len(snapshot.experts)))
        else:
            assert self.snapshot is not None  # otherwise has_all is True
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
        # The camera already has the calibration, which is many times as large as an expert.
        assert self.snapshot is not None  # after an exchange
        snapshot = None if unchanged else replace(self.snapshot, calibration=None)
        return Answer(snapshot, done["numbering"], self.revisions)


def read_start(folder: str | os.PathLike) -> tuple[ReservoirSnapshot, Base]:
    """Return the reservoir that a fleet starts with, and the base of its cameras."""
    snapshot = read_folder(folder)
    return snapshot, Base.of(snapshot, [0] * len(snapshot.experts))
