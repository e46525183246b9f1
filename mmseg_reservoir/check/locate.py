"""Finds the root of a data set, or tells which folder was probably meant."""

from __future__ import annotations

from pathlib import Path

from ..datasets import LAYOUTS
from ..datasets.disk_layout import Layout
from ..errors import ReservoirError


def check_root(root: Path, name: str) -> None:
    """Refuse a folder that is not the root of the named data set.

    Raises:
        ReservoirError: With the likely folder, or the likely data set.
    """
    layout = LAYOUTS[name]
    if not root.exists():
        raise ReservoirError(f"no folder {root}; {layout.download.format(root=root)}")
    if layout.fits(root):
        return
    message = f"{root} is not the root of {layout.title} (no {' or '.join(layout.marks)} in it)"
    near = nearby(root, layout)
    if near is not None:
        raise ReservoirError(f"{message}; did you mean {near}?")
    for other_name, other in LAYOUTS.items():
        if other.fits(root):
            raise ReservoirError(
                f"{root} is {other.title}, not {layout.title}: check it with {other_name!r}"
            )
    raise ReservoirError(f"{message}; {layout.download.format(root=root)}")


def nearby(root: Path, layout: Layout) -> Path | None:
    """The root of such a data set up to two levels above a folder, or one below it."""
    above = list(root.absolute().parents)[:2]
    below = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return next((path for path in (*above, *below) if layout.fits(path)), None)
