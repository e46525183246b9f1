"""MiniCity, which tools/make_minicity.py writes in ACDC's folders."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import ReservoirError
from ..minicity.scene import COLUMNS, ROWS
from ..minicity.writer import MANIFEST
from .disk_layout import Cell, Layout

WRITE_AGAIN = "write it again: python tools/make_minicity.py {root} --overwrite"


def _cells(root: Path) -> list[Cell]:
    """What the data set says of itself: its size is up to the user."""
    try:
        counts = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["counts"]
        return [
            Cell(
                split,
                condition,
                images=f"rgb_anon/{condition}/{split}",
                labels=f"gt/{condition}/{split}",
                expected=count,
            )
            for condition, splits in counts.items()
            for split, count in splits.items()
            if count > 0
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReservoirError(
            f"{root / MANIFEST} is damaged ({type(error).__name__}: {error}): move {root} away "
            "and write the data set again with tools/make_minicity.py"
        ) from error


LAYOUT = Layout(
    title="MiniCity",
    cells=_cells,
    marks=(MANIFEST,),
    image_suffix="_rgb_anon.png",
    label_suffix="_gt_labelTrainIds.png",
    size=(ROWS, COLUMNS),
    download=WRITE_AGAIN,
)
