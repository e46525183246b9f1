"""DomainNet-126 (Peng et al., ICCV 2019; the 126 classes of Saito et al., ICCV 2019).

``DOMAIN/CLASS/*.jpg`` for ``clipart``, ``painting``, ``real`` and ``sketch``; and, as published
with AdaContrast (Chen et al., CVPR 2022), ``DOMAIN_list.txt`` with one ``PATH LABEL`` per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from .base import DomainSet, LabelledImages
from .disk_layout import Cell, Layout
from .pictures import FileImages, Preprocess, read_list

DOMAINS = ("real", "painting", "clipart", "sketch")
CLASSES = 126
LISTS = "*_list.txt as published with AdaContrast (github.com/DianCh/AdaContrast)"


def _cells(root: Path) -> list[Cell]:
    """What the lists say. The folders hold all 345 classes of DomainNet, or only the 126."""
    cells = []
    for domain in DOMAINS:
        path = root / f"{domain}_list.txt"
        if not path.is_file():
            raise ReservoirError(f"there is no {path}: put {LISTS} there")
        lines = path.read_text(encoding="utf-8").splitlines()
        # A line is PATH LABEL.
        names = tuple(line.rsplit(maxsplit=1)[0] for line in lines if line.strip())
        cells.append(Cell("all", domain, images=domain, expected=len(names), files=names))
    return cells


LAYOUT = Layout(
    title="DomainNet-126",
    cells=_cells,
    marks=DOMAINS,
    image_suffix=(".jpg", ".png"),
    unique=False,
    download=(
        "get the cleaned real.zip, painting.zip, clipart.zip and sketch.zip from "
        "ai.bu.edu/M3SDA and unzip them, so that {root} holds DOMAIN/CLASS/*.jpg, and put "
        f"{LISTS} beside them"
    ),
)


class DomainNet126(DomainSet):
    """DomainNet-126; leave the source domain out of ``domains``.

    Args:
        root: The folder with one folder per domain.
        domains: In order; by default all four.
        lists: The folder of the lists; by default the root.
        resize, crop, filter: See `Preprocess`.
    """

    title = "DomainNet-126"
    classes = CLASSES

    def __init__(
        self,
        root: str | Path,
        domains: Sequence[str] | None = None,
        lists: str | Path | None = None,
        resize: int | tuple[int, int] | None = (256, 256),
        crop: int | None = 224,
        filter: str = "bilinear",
    ) -> None:
        super().__init__(domains, DOMAINS)
        self.root = Path(root)
        self.lists = self.root if lists is None else Path(lists)
        self.preprocess = Preprocess(resize, crop, filter)
        self.listed = {
            name: read_domain_list(self.lists / f"{name}_list.txt") for name in self.names
        }

    def _open(self, name: str, severity: int | None) -> FileImages:
        return FileImages(self.root, *self.listed[name], self.preprocess)


def domainnet_source(root: str | Path, domain: str = "real", **options: Any) -> LabelledImages:
    """The images of one domain of `DomainNet126`: those of its list, not of all 345 classes."""
    return DomainNet126(root, [domain], **options).domain(domain)


def read_domain_list(path: Path) -> tuple[list[str], list[int]]:
    """Paths and labels of a list."""
    names, labels = [], []
    for number, words in enumerate(read_list(path), start=1):
        # Names of files may hold spaces; the label is the last word.
        label = words[-1]
        if len(words) < 2 or not label.isdigit() or int(label) >= CLASSES:
            raise ReservoirError(
                f"line {number} of {path} must be PATH LABEL, the label below {CLASSES}, "
                f"got {' '.join(words)!r}: use the lists published with AdaContrast"
            )
        names.append(" ".join(words[:-1]))
        labels.append(int(label))
    if not names:
        raise ReservoirError(f"{path} is empty: use the lists published with AdaContrast")
    return names, labels
