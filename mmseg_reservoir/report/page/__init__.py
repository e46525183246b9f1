"""The HTML page of one run or several. It needs the extra ``report``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import ReservoirError


@contextmanager
def needs_plotly() -> Iterator[None]:
    """Name the extra to install if an import inside this context does not find Plotly."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "plotly":
            raise
        raise ReservoirError(
            "the page needs Plotly, which is not installed: pip install 'mmseg_reservoir[report]'"
        ) from error
