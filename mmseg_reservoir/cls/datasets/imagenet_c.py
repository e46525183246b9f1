"""ImageNet-C (Hendrycks and Dietterich, ICLR 2019), as published.

``CORRUPTION/SEVERITY/CLASS/*.JPEG``, 50,000 images of 224 x 224 each. RobustBench and most papers
use 5,000 of them, which a text file names (one ``CLASS/NAME.JPEG`` per line).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import ReservoirError
from ...known_datasets import CORRUPTIONS, EXTRA_CORRUPTIONS, IMAGENET_CLASSES
from .base import DomainSet
from .files import FileImages, list_folders, list_images, read_list
from .preprocess import Preprocess


class ImageNetC(DomainSet):
    """ImageNet-C.

    Args:
        root: The folder with one folder per corruption.
        corruptions: Domains, in order; by default the fifteen of the benchmark.
        severity: 1 to 5.
        image_list: Text file that names the images to use; None for all.
        resize: None, as the published files have their size already; see `Preprocess`.
        crop: Side of the square in the centre.
        filter: Of resizing.
        classes: How many class folders there must be, whose sorted names give the labels.
    """

    title = "ImageNet-C"

    def __init__(
        self,
        root: str | Path,
        corruptions: Sequence[str] | None = None,
        severity: int = 5,
        image_list: str | Path | None = None,
        resize: int | tuple[int, int] | None = None,
        crop: int | None = 224,
        filter: str = "bilinear",
        classes: int = IMAGENET_CLASSES,
    ) -> None:
        names = CORRUPTIONS if corruptions is None else corruptions
        super().__init__(names, CORRUPTIONS + EXTRA_CORRUPTIONS, severity)
        self.root = Path(root)
        self.classes = classes
        self.preprocess = Preprocess(resize, crop, filter)
        self.image_list = None if image_list is None else _read_names(Path(image_list))
        for name in self.names:
            if not (self.root / name).is_dir():
                there = [f for f in list_folders(self.root) if f in CORRUPTIONS + EXTRA_CORRUPTIONS]
                raise ReservoirError(
                    f"there is no {self.root / name}; {self.root} has "
                    f"{', '.join(there) or 'no corruption'}: unpack the archive that holds it, see "
                    f"tools/check_dataset.py imagenetc {self.root}"
                )

    def _open(self, name: str, severity: int | None) -> FileImages:
        folder = self.root / name / str(severity)
        found = list_folders(folder)
        if len(found) != self.classes:
            raise ReservoirError(
                f"{folder} has {len(found)} class folders, not {self.classes}, so labels would be "
                f"wrong: see tools/check_dataset.py imagenetc {self.root}"
            )
        labels = {name: label for label, name in enumerate(found)}
        names = self.image_list
        if names is None:
            names = [f"{c}/{image}" for c in found for image in list_images(folder / c)]
        unknown = next((n for n in names if n.split("/")[0] not in labels), None)
        if unknown is not None:
            raise ReservoirError(
                f"the image list names {unknown}, but {folder} has no such class: use a list with "
                "one CLASS/NAME.JPEG per line"
            )
        return FileImages(folder, names, [labels[n.split("/")[0]] for n in names], self.preprocess)


def _read_names(path: Path) -> list[str]:
    """The first words of the lines, so that lists with labels behind the names do as well."""
    if not path.is_file():
        raise ReservoirError(
            f"there is no image list {path}: get imagenet_test_image_ids.txt, which is in "
            "RobustBench's repository, or set data.image_list=None for all images"
        )
    names = [words[0] for words in read_list(path, "image list")]
    bad = next((name for name in names if name.count("/") != 1), None)
    if not names or bad is not None:
        raise ReservoirError(
            f"{path} must have one CLASS/NAME.JPEG per line, got {bad or 'nothing'!r}"
        )
    return names
