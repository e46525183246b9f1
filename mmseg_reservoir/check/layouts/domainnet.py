"""DomainNet-126 (Peng et al., ICCV 2019; Saito et al., ICCV 2019): the images that lists name."""

from __future__ import annotations

from pathlib import Path

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.known_datasets import DOMAINNET_DOMAINS

from ..layout import Cell, Layout

LISTS = "*_list.txt as published with AdaContrast (github.com/DianCh/AdaContrast)"


def _cells(root: Path) -> list[Cell]:
    """What the lists say. The folders hold all 345 classes of DomainNet, or only the 126."""
    cells = []
    for domain in DOMAINNET_DOMAINS:
        path = root / f"{domain}_list.txt"
        if not path.is_file():
            raise ReservoirError(f"there is no {path}: put {LISTS} there")
        lines = path.read_text(encoding="utf-8").splitlines()
        # A line is PATH LABEL.
        names = tuple(line.rsplit(maxsplit=1)[0] for line in lines if line.strip())
        cells.append(Cell("all", domain, images=domain, expected=len(names), files=names))
    return cells


DOMAINNET126 = Layout(
    title="DomainNet-126",
    cells=_cells,
    marks=DOMAINNET_DOMAINS,
    image_suffix=(".jpg", ".png"),
    unique=False,
    download=(
        "get the cleaned real.zip, painting.zip, clipart.zip and sketch.zip from "
        "ai.bu.edu/M3SDA and unzip them, so that {root} holds DOMAIN/CLASS/*.jpg, and put "
        f"{LISTS} beside them"
    ),
)
