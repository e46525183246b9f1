"""A disk that fails at a chosen write, for tests.

All writes of this process below one folder are counted: files opened for writing, each piece that
is written to them, their ends, and calls that change a folder. The n-th fails, alone or with all
that come after it.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)
_REMOVALS = ("unlink", "remove", "rmdir", "truncate")
"""Work on a full disk, too."""
_OTHERS = ("mkdir", "replace", "rename", "fsync")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class FailingDisk:
    """Counts the writes below a folder, and lets the n-th fail.

    Args:
        folder: Writes elsewhere do not count.
        fail_at: Number of the write that fails, from 1; 0 for none. Or a pattern: the first write
            whose kind and path match it fails.
        error: Its errno.
        lasting: Whether all writes fail from then on.
    """

    def __init__(
        self, folder: Path, fail_at: int | str = 0, error: int = errno.ENOSPC, lasting: bool = False
    ) -> None:
        self.folder = str(folder.resolve())
        self.fail_at, self.error, self.lasting = fail_at, error, lasting
        self.writes: list[str] = []
        """What was written so far: the kind of the write and the path."""
        self.failed: list[str] = []

    def write(self, kind: str, path: Any, partly: Callable[[], object] | None = None) -> None:
        """Count a write; raise if its time has come, after what is done of it all the same."""
        if hasattr(path, "fileno"):
            path = path.fileno()
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        path = os.path.abspath(os.fsdecode(path))
        if not f"{path}{os.sep}".startswith(f"{self.folder}{os.sep}") or (
            self.error == errno.ENOSPC and kind in _REMOVALS
        ):
            return
        self.writes.append(f"{kind} {path}")
        if isinstance(self.fail_at, str) and re.search(self.fail_at, self.writes[-1]):
            self.fail_at = len(self.writes)
        begun = not isinstance(self.fail_at, str) and 0 < self.fail_at <= len(self.writes)
        if begun and (self.lasting or self.fail_at == len(self.writes)):
            self.failed.append(self.writes[-1])
            if partly is not None:
                partly()
            named = () if kind in ("write", "close", "truncate", "fsync") else (path,)
            raise OSError(self.error, os.strerror(self.error), *named)

    @contextmanager
    def mounted(self) -> Iterator[FailingDisk]:
        """Count and fail within."""
        with ExitStack() as patches:
            for name in (*_REMOVALS, *_OTHERS):
                patches.enter_context(mock.patch.object(os, name, self._counted(name)))
            patches.enter_context(mock.patch.object(os, "open", self._os_open(os.open)))
            opened = self._open(io.open)
            patches.enter_context(mock.patch.object(io, "open", opened))
            patches.enter_context(mock.patch.object(builtins, "open", opened))
            yield self

    def _counted(self, name: str) -> Callable:
        function = getattr(os, name)

        def call(path: Any, *args: Any, **options: Any) -> Any:
            is_change = name != "mkdir" or not os.path.isdir(path)
            if is_change and options.get("dir_fd") is None:
                self.write(name, path)
            return function(path, *args, **options)

        return call

    def _os_open(self, function: Callable) -> Callable:
        def call(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if flags & _WRITING and options.get("dir_fd") is None:
                self.write("open", path)
            return function(path, flags, *args, **options)

        return call

    def _open(self, function: Callable) -> Callable:
        def call(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return function(file, mode, *args, **options)
            self.write("open", file)
            return _File(function(file, mode, *args, **options), file, self)

        return call


class _File:
    """A file that is open for writing."""

    def __init__(self, file: Any, path: Any, disk: FailingDisk) -> None:
        self._file, self._path, self._disk = file, path, disk

    def write(self, data: Any) -> int:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._disk.write("write", self._path, half)
        return self._file.write(data)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def truncate(self, *size: int) -> int:
        self._disk.write("truncate", self._path)
        return self._file.truncate(*size)

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            self._disk.write("close", self._path)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
