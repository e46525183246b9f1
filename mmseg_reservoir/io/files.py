"""Files: where they lie, and how they are written whole and read safely."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReservoirError, WriteError

if TYPE_CHECKING:  # these take seconds to import, and what only names files does without them
    from matplotlib.figure import Figure
    from torch import Tensor

_PACKAGE = Path(__file__).resolve().parents[1]


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


def display_path(path: str | os.PathLike) -> str:
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
        raise WriteError(
            f"cannot write to the work directory {folder} ({error.strerror}): {remedy(error)} with "
            "--work-dir"
        ) from error
    return folder


@contextmanager
def changing(path: str | os.PathLike, verb: str = "write") -> Iterator[None]:
    """Explain an error of the disk by the path that is being changed and a remedy."""
    try:
        yield
    except WriteError:  # which names a path within this one
        raise
    except OSError as error:
        raise WriteError(
            f"cannot {verb} {path} ({error.strerror or error}): {remedy(error)}"
        ) from error


def remedy(error: OSError) -> str:
    """Return what a user can do about an error of the disk."""
    what = _REMEDIES.get(error.errno or 0, "check the path and the disk")
    return f"{what}, or choose another folder"


_REMEDIES = {
    errno.ENOSPC: "free some space on the disk",
    errno.EDQUOT: "free some space of the quota",
    errno.EFBIG: "raise the limit of the size of files",
    errno.EROFS: "make the disk writable",
    errno.EACCES: "make it writable for this user",
    errno.EPERM: "make it writable for this user",
    errno.EIO: "check the disk",
    errno.ENOTDIR: "remove the file that is in the place of a folder",
    errno.EEXIST: "remove the file that is in the place of a folder",
    errno.EISDIR: "remove the folder that is in the place of the file",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def atomic_write(
    path: str | os.PathLike, write: Callable[[Path], object], durable: bool = True
) -> Path:
    """Write a file such that a reader, or a crash, never sees a part of it; make its folder.

    Args:
        path: The file.
        write: Writes to the path that it is given, which is not yet that of the file.
        durable: Return when the file is on the disk, so that it survives a crash of the machine,
            too. Switch it off for files of which a run writes many.

    Raises:
        WriteError: If the disk is full, read-only or broken. What was there before is kept.
    """
    path = Path(path).expanduser()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with changing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(partial)
            if durable:
                with partial.open("r+b") as file:
                    os.fsync(file)
            partial.replace(path)
        except BaseException:
            with suppress(OSError):  # the first error is the one to report
                partial.unlink(missing_ok=True)
            raise
        if durable and os.name == "posix":  # elsewhere folders cannot be opened
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # the new name, too
            finally:
                os.close(folder)
    return path


def write_bytes(path: str | os.PathLike, data: bytes | memoryview, durable: bool = True) -> Path:
    """Write a file of bytes, all of it or nothing."""
    return atomic_write(path, lambda partial: partial.write_bytes(data), durable)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a text file, all of it or nothing."""
    return write_bytes(path, text.encode("utf-8"))


def write_figure(path: str | os.PathLike, figure: Figure, dpi: int) -> Path:
    """Write a figure of Matplotlib in the format of the file's suffix, all of it or nothing."""
    kind = Path(path).suffix.removeprefix(".") or "png"
    return atomic_write(path, lambda partial: figure.savefig(partial, format=kind, dpi=dpi))


def append_bytes(path: str | os.PathLike, data: bytes, size: int, durable: bool = True) -> int:
    """Write after the first ``size`` bytes of a file, whose rest is cut off; return the new size.

    A failure leaves these bytes alone, unless the disk refuses to cut off what it wrote.
    """
    path = Path(path)
    with changing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            size = min(size, file.seek(0, os.SEEK_END))
            file.truncate(size)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                if durable:
                    os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):  # the first error is the one to report
                    file.truncate(size)
                raise
    return size + len(data)


def replace_folder(folder: Path, new: Path) -> None:
    """Put a folder in the place of another one, which is removed, or comes back if that fails."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    with changing(folder):
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)  # of a process that was killed
            folder.rename(old)  # a folder that holds files cannot be replaced in one go
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                with changing(folder, f"rename {old} to"):
                    old.rename(folder)
            raise
    shutil.rmtree(old, ignore_errors=True)


def kept_folders(folder: Path) -> list[Path]:
    """Return what :func:`replace_folder` left of a folder where it was killed."""
    name = glob.escape(folder.name)
    return [] if folder.exists() else sorted(folder.parent.glob(f".{name}.*.old"))


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    with changing(path, "remove"):
        path.unlink(missing_ok=True)


def write_tensors(
    path: str | os.PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> Path:
    """Write a ``.safetensors`` file, all of it or nothing."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Not by save_file, whose files nobody but the user may read.
    data = save(plain, dict(metadata) or None)
    return write_bytes(path, data)


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
