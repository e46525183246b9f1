"""What a data set should look like on disk, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """One split of one condition: a row of the table.

    Attributes:
        split: ``train``, ``val``, ...
        condition: ``fog``, ``night``, ...
        images: Folder of the images below the root; searched recursively.
        labels: Folder of the labels; None where there are none to check.
        expected: How many images there should be; None if anything will do.
        needed: Whether the whole split may be absent.
    """

    split: str
    condition: str
    images: str
    labels: str | None = None
    expected: int | None = None
    needed: bool = True

    @property
    def name(self) -> str:
        """How reports call it."""
        return f"{self.split}/{self.condition}"


@dataclass(frozen=True)
class Layout:
    """A data set.

    An image and its label have the same path below their folders, except for the suffix.

    Attributes:
        title: The name for people.
        cells: All splits and conditions, given the root.
        marks: What the root must hold to be this data set at all.
        never: What it must not hold: the marks of data sets in the same folders.
        image_suffix: How names of images end.
        label_suffix: How names of labels end.
        raw_label_suffix: How labels end that are no train ids yet.
        size: Rows and columns of every image; None if they vary.
        classes: Labels are 0 ... classes - 1, or `ignore`.
        ignore: The label of pixels that do not count.
        raw_ids: Largest id in raw labels, by which they are recognised.
        labels_needed: Whether images without any label are an error.
        download: Where the files come from, and where they go: the end of many a message.
        make_labels: How to get labels with train ids from raw ones.
    """

    title: str
    cells: Callable[[Path], Sequence[Cell]]
    marks: tuple[str, ...]
    download: str
    never: tuple[str, ...] = ()
    image_suffix: str = ".png"
    label_suffix: str = ".png"
    raw_label_suffix: str | None = None
    size: tuple[int, int] | None = None
    classes: int = 19
    ignore: int = 255
    raw_ids: int = 33
    labels_needed: bool = True
    make_labels: str = ""

    def fits(self, root: Path) -> bool:
        """Whether a folder is the root of such a data set."""
        there = all((root / mark).exists() for mark in self.marks)
        return there and not any((root / mark).exists() for mark in self.never)
