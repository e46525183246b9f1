"""The folder of a run's states, which keeps the newest two."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from ..io.files import remove_file, write_text
from ..io.state_files import DamagedStateError, read_state, write_state

_logger = logging.getLogger(__name__)
_KEPT = 2


class StateFolder:
    """The states of a run: ``0000000400.safetensors`` is the state after 400 images.

    A file gets its name when all of it is on the disk. The marker ``newest`` is written last; a
    state that is newer than the marker is incomplete.

    Args:
        folder: Path of the folder, which is created when the first state is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._marker = folder / "newest"

    def files(self) -> list[Path]:
        """Return the files of complete states, oldest first."""
        newest = self._marker.read_text(encoding="utf-8") if self._marker.is_file() else ""
        names = sorted(self.folder.glob("[0-9]*.safetensors"))
        return [path for path in names if path.name <= newest.strip()]

    def save(self, images: int, state: Any, header: Mapping[str, Any]) -> Path:
        """Save the state after this number of images, and remove all but the newest two."""
        path = write_state(self.folder / f"{images:010d}.safetensors", state, header)
        write_text(self._marker, path.name)
        self.prune(_KEPT)
        return path

    def newest(self) -> tuple[Path, Any, dict[str, Any]] | None:
        """Return path, state and header of the newest undamaged state; None without any state.

        Raises:
            ReservoirError: If there are states, but all are damaged, or one is of another schema.
        """
        damage: DamagedStateError | None = None
        for path in reversed(self.files()):
            try:
                return path, *read_state(path)
            except DamagedStateError as error:
                damage = error
                _logger.warning("%s %s: it is skipped", path, error.what)
        if damage is not None:
            raise ReservoirError(
                f"no state in {self.folder} can be read (the last one tried {damage.what}): start "
                "again with --overwrite, or choose another --work-dir"
            )
        return None

    def go_back_to(self, path: Path) -> None:
        """Remove the states that are newer than ``path``, since the run will save them again."""
        for later in self.files():
            if later.name > path.name:
                remove_file(later)
        write_text(self._marker, path.name)

    def prune(self, kept: int) -> None:
        """Remove all but the newest ``kept`` states."""
        files = self.files()
        for path in files[: max(0, len(files) - kept)]:
            remove_file(path)

    def clear(self) -> None:
        """Remove all states, including incomplete ones."""
        remove_file(self._marker)
        for path in self.folder.glob("[0-9]*.safetensors"):
            remove_file(path)
