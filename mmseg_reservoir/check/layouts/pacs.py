"""PACS (Li et al., ICCV 2017): 9991 images of seven classes in four styles."""

from __future__ import annotations

from pathlib import Path

from mmseg_reservoir.known_datasets import PACS_IMAGES

from ..layout import Cell, Layout


def _cells(root: Path) -> list[Cell]:
    return [Cell("all", name, images=name, expected=count) for name, count in PACS_IMAGES.items()]


PACS = Layout(
    title="PACS",
    cells=_cells,
    marks=tuple(PACS_IMAGES),
    image_suffix=(".jpg", ".jpeg", ".png"),
    unique=False,
    download=(
        "get PACS from its authors' page (dali-dl.github.io/project_iccv2017.html), so that {root} "
        "holds photo/CLASS, art_painting/CLASS, cartoon/CLASS and sketch/CLASS"
    ),
)
