"""The exceptions for mistakes that a user can fix."""


class ReservoirError(ValueError):
    """An error that the user can fix: its message says what was wrong and what to do."""


class NotFiniteError(ReservoirError):
    """A batch holds NaN or infinite values."""


class WriteError(ReservoirError, OSError):
    """A file or folder could not be written: the disk is full, read-only or broken."""
