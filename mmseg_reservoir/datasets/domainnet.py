"""DomainNet-126 (Peng et al., ICCV 2019; the 126 classes of Saito et al., ICCV 2019).

The files are ``DOMAIN/CLASS/*.jpg`` and, as published with AdaContrast (Chen et al., CVPR 2022),
``DOMAIN_list.txt`` with one ``PATH LABEL`` per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from .base import DomainSet, LabeledImages
from .disk_layout import Cell, Layout
from .pictures import FileImages, Filter, Preprocess, read_list

DOMAINS = ("real", "painting", "clipart", "sketch")
CLASSES = 126
_LISTS = "*_list.txt as published with AdaContrast (github.com/DianCh/AdaContrast)"


def _cells(root: Path) -> list[Cell]:
    # Images are taken from lists, because folders may have all 345 classes of DomainNet.
    cells = []
    for domain in DOMAINS:
        path = root / f"{domain}_list.txt"
        if not path.is_file():
            raise ReservoirError(f"there is no {path}: put {_LISTS} there")
        lines = path.read_text(encoding="utf-8").splitlines()
        names = tuple(line.rsplit(maxsplit=1)[0] for line in lines if line.strip())
        cells.append(Cell("all", domain, images=domain, expected=len(names), files=names))
    return cells


LAYOUT = Layout(
    title="DomainNet-126",
    cells=_cells,
    markers=DOMAINS,
    image_suffix=(".jpg", ".png"),
    unique=False,
    download=(
        "get the cleaned real.zip, painting.zip, clipart.zip and sketch.zip from "
        "ai.bu.edu/M3SDA and unzip them, so that {root} holds DOMAIN/CLASS/*.jpg, and put "
        f"{_LISTS} beside them"
    ),
)


class DomainNet126(DomainSet):
    """DomainNet-126. ``domains`` should not include the source domain.

    Args:
        root: Folder with one folder per domain.
        domains: Domains in the order of the stream. Defaults to all four.
        lists: Folder of the lists. Defaults to the root.
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
        filter: Filter = "bilinear",
    ) -> None:
        super().__init__(domains, DOMAINS)
        self.root = Path(root)
        self.preprocess = Preprocess(resize, crop, filter)
        folder = self.root if lists is None else Path(lists)
        self.listed = {name: _read_domain_list(folder / f"{name}_list.txt") for name in self.names}

    def _open(self, name: str, severity: int | None) -> FileImages:
        return FileImages(self.root, *self.listed[name], self.preprocess)


def domainnet_source(root: str | Path, domain: str = "real", **options: Any) -> LabeledImages:
    """Return the images of one domain of `DomainNet126`, from its list."""
    return DomainNet126(root, [domain], **options).domain(domain)


def _read_domain_list(path: Path) -> tuple[list[str], list[int]]:
    names, labels = [], []
    for number, words in enumerate(read_list(path), start=1):
        # File names may contain spaces, so the label is the last word.
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
