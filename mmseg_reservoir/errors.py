"""Exceptions for mistakes that a user can fix, and their messages."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class ReservoirError(ValueError):
    """An error that the user can fix. Its message states what was wrong and what to do."""


class NotFiniteError(ReservoirError):
    """A batch holds NaN or infinite values."""


class WriteError(ReservoirError, OSError):
    """A file or folder could not be written: the disk is full, read-only or broken."""


@contextmanager
def refusing(what: str, todo: str) -> Iterator[None]:
    """Turn the errors of incomplete or malformed data into a :class:`ReservoirError`.

    Args:
        what: Description of the data, the beginning of the message.
        todo: Remedy in the imperative, the end of the message.
    """
    try:
        yield
    except ReservoirError:
        raise
    except _MISFITS as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ReservoirError(f"{what} ({reason}): {todo}") from error


_MISFITS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    MemoryError,
)
"""Exceptions of Python and torch for a missing key, or a wrong type, shape or size."""


THIRD_PARTY_WARNINGS = (
    ("pkg_resources is deprecated as an API", "mmengine|importlib"),
    ("``build_loss`` would be deprecated soon", "mmseg"),
    ("Default ``avg_non_ignore`` is False", "mmseg"),
)
"""Library warnings that users can ignore: beginning of the message, and pattern of the module."""


def ignore_third_party_warnings() -> None:
    """Hide ``THIRD_PARTY_WARNINGS``, unless Python was started with ``-W``."""
    for message, module in THIRD_PARTY_WARNINGS if not sys.warnoptions else ():
        warnings.filterwarnings("ignore", re.escape(message), module=rf"({module})\b")


def one_line(error: Exception) -> str:
    """Return the message of an error in one line.

    The error of a dataloader's worker holds its message below the worker's traceback.
    """
    name = f"{ReservoirError.__module__}.{ReservoirError.__qualname__}: "
    return " ".join(str(error).rpartition(name)[-1].split())
