"""The one exception class for mistakes that a user can mend."""


class ReservoirError(ValueError):
    """An error that the user can mend: its message says what was wrong and what to do."""
