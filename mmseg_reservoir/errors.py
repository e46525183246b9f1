"""The exceptions for mistakes that a user can fix."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class ReservoirError(ValueError):
    """An error that the user can fix: its message says what was wrong and what to do."""


class NotFiniteError(ReservoirError):
    """A batch holds NaN or infinite values."""


class WriteError(ReservoirError, OSError):
    """A file or folder could not be written: the disk is full, read-only or broken."""


@contextmanager
def refusing(what: str, todo: str) -> Iterator[None]:
    """Explain an error that comes from data in which something is missing, or is of another kind.

    Args:
        what: The data, as the beginning of a sentence.
        todo: What the user can do, in the imperative.
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
"""What Python and torch raise for a key that is missing, or a type, shape or size that is wrong."""


THIRD_PARTY_WARNINGS = (
    ("pkg_resources is deprecated as an API", "mmengine|importlib"),
    ("``build_loss`` would be deprecated soon", "mmseg"),
    ("Default ``avg_non_ignore`` is False", "mmseg"),
)
"""Of the libraries below, which no user can act on: how they begin, and modules they come from."""


def ignore_third_party_warnings() -> None:
    """Let this process not show them, unless Python was told to show warnings (``python -W``)."""
    for message, module in THIRD_PARTY_WARNINGS if not sys.warnoptions else ():
        warnings.filterwarnings("ignore", re.escape(message), module=rf"({module})\b")


def one_line(error: Exception) -> str:
    """The message of an error, whatever lines it is made of.

    That of a worker of a dataloader arrives below the worker's traceback.
    """
    name = f"{ReservoirError.__module__}.{ReservoirError.__qualname__}: "
    return " ".join(str(error).rpartition(name)[-1].split())
