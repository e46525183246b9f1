"""Describe the layout of a data set on disk as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Array:
    """The expected content of a ``.npy`` file.

    Attributes:
        dtype: Name of the numpy type. None accepts any integers.
        classes: Number of classes in an array of labels, each of which must occur.
    """

    shape: tuple[int, ...]
    dtype: str | None = None
    classes: int | None = None


@dataclass(frozen=True)
class Cell:
    """One split of one condition, which is one row of the report.

    Attributes:
        images: Folder of the images below the root, searched recursively.
        labels: Folder of the labels. None if labels are not checked.
        expected: Published number of images. None accepts any number.
        needed: Whether a missing split is a problem. Otherwise it is a note.
        files: Names of the images below the root, if the data set lists them. Then ``images``
            only names the folder in messages.
        array: Content of each file, if it is an array.
    """

    split: str
    condition: str
    images: str
    labels: str | None = None
    expected: int | None = None
    needed: bool = True
    files: tuple[str, ...] | None = None
    array: Array | None = None

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.split}/{self.condition}"


@dataclass(frozen=True)
class Layout:
    """A data set. The paths of an image and its label differ only in folder and suffix.

    Attributes:
        cells: Function from the root to all splits and conditions.
        markers: Paths that identify the root; may contain ``*``.
        download: Source and destination of the files, the end of many messages.
        foreign_markers: Markers of other data sets that use the same folders.
        image_suffix: Suffix of the images, or several suffixes if there are no labels.
        raw_label_suffix: Suffix of labels that do not hold train ids.
        size: Rows and columns of every image. None if they vary.
        classes: Number of classes. Labels are 0 to ``classes - 1``, or ``ignore``.
        raw_ids: Largest id in labels that do not hold train ids.
        labels_needed: Whether images without any label are a problem.
        unique: Whether one image in two cells is a problem.
        make_labels: Instruction to make labels with train ids from raw labels.
    """

    title: str
    cells: Callable[[Path], Sequence[Cell]]
    markers: tuple[str, ...]
    download: str
    foreign_markers: tuple[str, ...] = ()
    image_suffix: str | tuple[str, ...] = ".png"
    label_suffix: str = ".png"
    raw_label_suffix: str | None = None
    size: tuple[int, int] | None = None
    classes: int = 19
    ignore: int = 255
    raw_ids: int = 33
    labels_needed: bool = True
    unique: bool = True
    make_labels: str = ""

    def fits(self, root: Path) -> bool:
        """Return whether a folder is the root of this data set."""
        has_all = all(any(root.glob(marker)) for marker in self.markers)
        return has_all and not any(any(root.glob(marker)) for marker in self.foreign_markers)
