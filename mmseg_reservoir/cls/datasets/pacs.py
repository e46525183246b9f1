"""PACS (Li et al., ICCV 2017): ``DOMAIN/CLASS/*.jpg`` or ``.png``, four domains, seven classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import ReservoirError
from ...known_datasets import PACS_CLASSES, PACS_IMAGES
from .base import DomainSet
from .files import FileImages, list_folders, list_images
from .preprocess import Preprocess


class PACS(DomainSet):
    """PACS; leave the source domain out of ``domains``.

    Args:
        root: The folder with one folder per domain.
        domains: In order; by default all four.
        resize: See `Preprocess`.
        crop: Side of the square in the centre.
        filter: Of resizing.
    """

    title = "PACS"
    classes = len(PACS_CLASSES)

    def __init__(
        self,
        root: str | Path,
        domains: Sequence[str] | None = None,
        resize: int | tuple[int, int] | None = (224, 224),
        crop: int | None = None,
        filter: str = "bilinear",
    ) -> None:
        super().__init__(domains, tuple(PACS_IMAGES))
        self.root = Path(root)
        self.preprocess = Preprocess(resize, crop, filter)
        for name in self.names:
            found = list_folders(self.root / name)
            if set(found) != set(PACS_CLASSES):
                raise ReservoirError(
                    f"{self.root / name} must have the folders {', '.join(PACS_CLASSES)}, it has "
                    f"{', '.join(found) or 'none'}: see tools/check_dataset.py pacs {self.root}"
                )

    def _open(self, name: str, severity: int | None) -> FileImages:
        folder = self.root / name
        names, labels = [], []
        for label, kind in enumerate(PACS_CLASSES):
            found = [f"{kind}/{image}" for image in list_images(folder / kind)]
            names += found
            labels += [label] * len(found)
        return FileImages(folder, names, labels, self.preprocess)
