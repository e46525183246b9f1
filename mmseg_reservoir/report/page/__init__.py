"""One HTML page about one run, or about several beside each other. Needs the extra ``report``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import ReservoirError


@contextmanager
def needs_plotly() -> Iterator[None]:
    """Say what to install, where an import within finds no Plotly."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "plotly":
            raise
        raise ReservoirError(
            "the page is drawn by Plotly, which is not installed: pip install "
            "'mmseg_reservoir[report]'"
        ) from error
