"""Find files, write them completely or not at all, read them safely, and hash them."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReservoirError, WriteError

if TYPE_CHECKING:  # these take seconds to import, and what only names files does without them
    from matplotlib.figure import Figure
    from torch import Tensor

_PACKAGE = Path(__file__).resolve().parents[1]


def cache_folder() -> Path:
    """Return the user's cache folder of this project."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "mmseg_reservoir"


def shipped(name: str) -> Path:
    """Return a bundled file, ``checkpoints/...`` or ``configs/...``.

    It is in the package's ``.mim`` if that is installed from a wheel, as mmseg's files are, and
    beside the package in a checkout.
    """
    paths = [_PACKAGE / ".mim" / name, _PACKAGE.parent / name]
    for path in paths:
        if path.exists():
            return path
    raise ReservoirError(
        f"the bundled {name} is missing, neither at {paths[0]} nor at {paths[1]}: install "
        "mmseg_reservoir again"
    )


def display_path(path: str | os.PathLike) -> str:
    """Return a path for a message; a relative path is shown with its starting folder."""
    return str(path) if Path(path).is_absolute() else f"{path} (seen from {Path.cwd()})"


def make_work_dir(path: str | os.PathLike) -> Path:
    """Create a folder for results, and check that files can be written to it."""
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
def explain_disk_errors(path: str | os.PathLike, verb: str = "write") -> Iterator[None]:
    """Turn a disk error within this context into an error with the path and a remedy."""
    try:
        yield
    except WriteError:  # which names a path within this one
        raise
    except OSError as error:
        raise WriteError(
            f"cannot {verb} {path} ({error.strerror or error}): {remedy(error)}"
        ) from error


def remedy(error: OSError) -> str:
    """Return the remedy for a disk error, for a message."""
    todo = _REMEDIES.get(error.errno or 0, "check the path and the disk")
    return f"{todo}, or choose another folder"


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
    """Write a file and its folder so that readers and crashes never see a partial file.

    Args:
        path: The file.
        write: Function that writes to a temporary path, its argument.
        durable: Whether to wait until the file is on the disk, so that it survives a crash of the
            machine. False is faster for many files. Defaults to True.

    Raises:
        WriteError: If the disk is full, read-only or broken. The old file is kept.
    """
    path = Path(path).expanduser()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with explain_disk_errors(path):
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
                os.fsync(folder)  # makes the new name durable, too
            finally:
                os.close(folder)
    return path


def write_bytes(path: str | os.PathLike, data: bytes | memoryview, durable: bool = True) -> Path:
    """Write bytes to a file with :func:`atomic_write`."""
    return atomic_write(path, lambda partial: partial.write_bytes(data), durable)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write text to a file with :func:`atomic_write`."""
    return write_bytes(path, text.encode("utf-8"))


def write_figure(path: str | os.PathLike, figure: Figure, dpi: int) -> Path:
    """Write a figure of Matplotlib in the format of the file's suffix."""
    kind = Path(path).suffix.removeprefix(".") or "png"
    return atomic_write(path, lambda partial: figure.savefig(partial, format=kind, dpi=dpi))


def append_bytes(path: str | os.PathLike, data: bytes, size: int, durable: bool = True) -> int:
    """Write data after the first ``size`` bytes of a file, and return the new size.

    Any bytes after ``size`` are removed. After a failure the first bytes remain.
    """
    path = Path(path)
    with explain_disk_errors(path):
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
    """Replace a folder by a new one; restore the old folder if this fails."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    with explain_disk_errors(folder):
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)  # from a killed process
            folder.rename(old)  # a folder with files cannot be replaced in one step
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                with explain_disk_errors(folder, f"rename {old} to"):
                    old.rename(folder)
            raise
    shutil.rmtree(old, ignore_errors=True)


def kept_folders(folder: Path) -> list[Path]:
    """Return the old copies of a folder that a killed :func:`replace_folder` left."""
    name = glob.escape(folder.name)
    return [] if folder.exists() else sorted(folder.parent.glob(f".{name}.*.old"))


def remove_file(path: Path) -> None:
    """Remove a file if it exists."""
    with explain_disk_errors(path, "remove"):
        path.unlink(missing_ok=True)


def write_tensors(
    path: str | os.PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> Path:
    """Write tensors to a ``.safetensors`` file with :func:`atomic_write`."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Not with save_file, because only the owner could read its files.
    data = save(plain, dict(metadata) or None)
    return write_bytes(path, data)


def read_tensors(
    path: str | os.PathLike, todo: str = "get it, or make it, again"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a ``.safetensors`` file.

    Args:
        path: The file.
        todo: Remedy for a damaged file, for the error.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path).expanduser()
    try:
        with safe_open(path, "pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ReservoirError(
            f"{path} cannot be read as a .safetensors file ({error}): {todo}"
        ) from error


def digest(data: str | Iterable[bytes | memoryview]) -> str:
    """Return the sha256 of a text, or of the concatenation of several pieces of data."""
    sha256 = hashlib.sha256()
    for piece in [data.encode()] if isinstance(data, str) else data:
        sha256.update(piece)
    return sha256.hexdigest()


def file_digest(path: str | os.PathLike) -> str:
    """Return the sha256 of a file, which may be larger than memory."""
    with open(path, "rb") as file:  # hashlib.file_digest needs Python 3.11
        return digest(iter(lambda: file.read(1 << 20), b""))
