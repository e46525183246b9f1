"""PACS (Li et al., ICCV 2017): 9991 images ``DOMAIN/CLASS/*.jpg`` or ``.png`` in four styles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import ReservoirError
from .base import DomainSet
from .disk_layout import Cell, Layout
from .pictures import FileImages, Filter, Preprocess, list_classes, list_folders

IMAGES = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}
"""Number of images by domain."""
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
"""Names in the order of the labels."""

LAYOUT = Layout(
    title="PACS",
    cells=lambda root: [Cell("all", name, name, expected=count) for name, count in IMAGES.items()],
    markers=tuple(IMAGES),
    image_suffix=(".jpg", ".jpeg", ".png"),
    unique=False,
    download=(
        "get PACS from its authors' page (dali-dl.github.io/project_iccv2017.html), so that {root} "
        "holds photo/CLASS, art_painting/CLASS, cartoon/CLASS and sketch/CLASS"
    ),
)


class PACS(DomainSet):
    """PACS. ``domains`` should not include the source domain.

    Args:
        root: Folder with one folder per domain.
        domains: Domains in the order of the stream. Defaults to all four.
        resize, crop, filter: See `Preprocess`.
    """

    title = "PACS"
    classes = len(CLASSES)

    def __init__(
        self,
        root: str | Path,
        domains: Sequence[str] | None = None,
        resize: int | tuple[int, int] | None = (224, 224),
        crop: int | None = None,
        filter: Filter = "bilinear",
    ) -> None:
        super().__init__(domains, tuple(IMAGES))
        self.root = Path(root)
        self.preprocess = Preprocess(resize, crop, filter)
        for name in self.names:
            folders = list_folders(self.root / name)
            if set(folders) != set(CLASSES):
                raise ReservoirError(
                    f"{self.root / name} must have the folders {', '.join(CLASSES)}, it has "
                    f"{', '.join(folders) or 'none'}: see reservoir check pacs {self.root}"
                )

    def _open(self, name: str, severity: int | None) -> FileImages:
        folder = self.root / name
        return FileImages(folder, *list_classes(folder, CLASSES), self.preprocess)
