"""Files: where they lie, and how they are written whole and read safely."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ReservoirError

if TYPE_CHECKING:  # torch takes seconds to import, and what only names files does without it
    from torch import Tensor

_PACKAGE = Path(__file__).resolve().parent


def cache_folder() -> Path:
    """The user's cache folder of this project."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "mmseg_reservoir"


def shipped(name: str) -> Path:
    """A file that comes with the project, ``checkpoints/...`` or ``configs/...``.

    It lies in the package's ``.mim`` where that is installed from a wheel, as those of mmseg do,
    and beside the package in a checkout.
    """
    places = [_PACKAGE / ".mim" / name, _PACKAGE.parent / name]
    for place in places:
        if place.exists():
            return place
    raise ReservoirError(
        f"{name} should have come with mmseg_reservoir, but is neither at {places[0]} nor at "
        f"{places[1]}: install it again"
    )


def told(path: str | os.PathLike) -> str:
    """A path as a message names it: of a relative one, what it is relative to."""
    return str(path) if Path(path).is_absolute() else f"{path} (seen from {Path.cwd()})"


def make_work_dir(path: str | os.PathLike) -> Path:
    """Make a folder for results, and make sure that files can be written there."""
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ReservoirError(
            f"cannot write to the work directory {folder} ({error.strerror}): name another with "
            "--work-dir"
        ) from error
    return folder


def write_whole(path: str | os.PathLike, write: Callable[[Path], object]) -> Path:
    """Write a file such that a reader, or a crash, never sees a part of it; make its folder.

    That holds for a crash of the machine, too: what is renamed is on the disk. The path that
    ``write`` is given is not yet that of the file.
    """
    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        with partial.open("r+b") as file:
            os.fsync(file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere folders cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too
        finally:
            os.close(folder)
    return path


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a text file, all of it or nothing."""
    return write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_tensors(
    path: str | os.PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> Path:
    """Write a ``.safetensors`` file, all of it or nothing."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Not by save_file, whose files nobody but the user may read.
    data = save(plain, dict(metadata) or None)
    return write_whole(path, lambda partial: partial.write_bytes(data))


def read_tensors(
    path: str | os.PathLike, mend: str = "get it, or make it, again"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a ``.safetensors`` file.

    The end of the message, ``mend``, tells what to do if it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path).expanduser()
    try:
        with safe_open(path, "pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ReservoirError(
            f"{path} cannot be read as a .safetensors file ({error}): {mend}"
        ) from error


def file_digest(path: str | os.PathLike) -> str:
    """The sha256 of a file, which may be larger than memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:  # hashlib.file_digest needs Python 3.11
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
