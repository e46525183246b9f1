"""The HTML page of one or more runs. It needs the extra ``report``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import ReservoirError


@contextmanager
def needs_plotly() -> Iterator[None]:
    """Return a context in which a missing Plotly is an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "plotly":
            raise
        raise ReservoirError(
            "the page needs Plotly, which is not installed: pip install 'mmseg_reservoir[report]'"
        ) from error
