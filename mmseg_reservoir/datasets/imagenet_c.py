"""ImageNet-C (Hendrycks and Dietterich, ICLR 2019), as published.

The files are ``CORRUPTION/SEVERITY/CLASS/*.JPEG``, with 50,000 images of 224 x 224 per severity.
RobustBench and most papers use 5,000 of them, from a text file with ``CLASS/NAME.JPEG`` per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import ReservoirError
from .base import DomainSet
from .disk_layout import Cell, Layout
from .pictures import FileImages, Filter, Preprocess, list_classes, list_folders, read_list

CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
"""The fifteen corruptions of ImageNet-C and CIFAR-C, in the order of the published streams."""
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""Four more corruptions, published for validation."""
IMAGES = 50_000
"""Number of images of one corruption and severity."""
IMAGENET_CLASSES = 1000

LAYOUT = Layout(
    title="ImageNet-C",
    # The streams of the paper use severity 5.
    cells=lambda root: [
        Cell(f"severity{level}", name, f"{name}/{level}", expected=IMAGES, needed=level == 5)
        for level in (5, 4, 3, 2, 1)
        for name in CORRUPTIONS
    ],
    markers=("gaussian_noise/5",),
    image_suffix=".JPEG",
    size=(224, 224),
    download=(
        "get noise.tar, blur.tar, weather.tar and digital.tar from zenodo.org/records/2235448 and "
        "unpack them, so that {root} holds CORRUPTION/SEVERITY/CLASS/*.JPEG"
    ),
)


class ImageNetC(DomainSet):
    """ImageNet-C.

    Args:
        root: Folder with one folder per corruption.
        corruptions: Domains in the order of the stream. Defaults to the fifteen of the benchmark.
        severity: Severity from 1 to 5.
        image_list: Text file with the images to use. Defaults to all images.
        resize, crop, filter: See `Preprocess`. The published files have the right size.
        classes: Number of class folders. Labels are in the order of the folders' names.
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
        filter: Filter = "bilinear",
        classes: int = IMAGENET_CLASSES,
    ) -> None:
        names = CORRUPTIONS if corruptions is None else corruptions
        published = CORRUPTIONS + EXTRA_CORRUPTIONS
        super().__init__(names, published, severity)
        self.root = Path(root)
        self.classes = classes
        self.preprocess = Preprocess(resize, crop, filter)
        self.image_list = None if image_list is None else _read_names(Path(image_list))
        for name in self.names:
            if not (self.root / name).is_dir():
                available = [folder for folder in list_folders(self.root) if folder in published]
                raise ReservoirError(
                    f"there is no {self.root / name}; {self.root} has "
                    f"{', '.join(available) or 'no corruption'}: unpack the archive that holds it, "
                    f"see reservoir check imagenetc {self.root}"
                )

    def _open(self, name: str, severity: int | None) -> FileImages:
        folder = self.root / name / str(severity)
        classes = list_folders(folder)
        if len(classes) != self.classes:
            raise ReservoirError(
                f"{folder} has {len(classes)} class folders, not {self.classes}, so labels would "
                f"be wrong: see reservoir check imagenetc {self.root}"
            )
        if self.image_list is None:
            return FileImages(folder, *list_classes(folder, classes), self.preprocess)
        names, labels = self.image_list, {name: label for label, name in enumerate(classes)}
        unknown = next((n for n in names if n.split("/")[0] not in labels), None)
        if unknown is not None:
            raise ReservoirError(
                f"the image list names {unknown}, but {folder} has no such class: use a list with "
                "one CLASS/NAME.JPEG per line"
            )
        return FileImages(folder, names, [labels[n.split("/")[0]] for n in names], self.preprocess)


def _read_names(path: Path) -> list[str]:
    """Return the first word of each line; a second word, such as a label, is ignored."""
    remedy = (
        "get imagenet_test_image_ids.txt, which is in RobustBench's repository, or set "
        "data.image_list=None for all images"
    )
    names = [words[0] for words in read_list(path, remedy)]
    bad = next((name for name in names if name.count("/") != 1), None)
    if not names or bad is not None:
        raise ReservoirError(
            f"{path} must have one CLASS/NAME.JPEG per line, got {bad or 'nothing'!r}"
        )
    return names
