"""What a data set should look like on disk, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Array:
    """What a ``.npy`` file should hold.

    Attributes:
        shape: Its shape.
        dtype: Its type, as numpy calls it; None for any integers.
        classes: If it is labels: they are 0 ... classes - 1, and each of them occurs.
    """

    shape: tuple[int, ...]
    dtype: str | None = None
    classes: int | None = None


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
        files: The names of the images below the root, where they are known; `images` is then only
            what messages call the place.
        array: What each file should hold, if it is an array.
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
        """How reports call it."""
        return f"{self.split}/{self.condition}"


@dataclass(frozen=True)
class Layout:
    """A data set.

    An image and its label have the same path below their folders, except for the suffix.

    Attributes:
        title: The name for people.
        cells: All splits and conditions, given the root.
        marks: What the root must hold to be this data set at all; may have a ``*``.
        never: What it must not hold: the marks of data sets in the same folders.
        image_suffix: How names of images end; several, if there are no labels to pair with.
        label_suffix: How names of labels end.
        raw_label_suffix: How labels end that are no train ids yet.
        size: Rows and columns of every image; None if they vary.
        classes: Labels are 0 ... classes - 1, or `ignore`.
        ignore: The label of pixels that do not count.
        raw_ids: Largest id in raw labels, by which they are recognised.
        labels_needed: Whether images without any label are an error.
        unique: Whether an image in two cells is an error; not so where collectors found it twice.
        download: Where the files come from, and where they go: the end of many a message.
        make_labels: How to get labels with train ids from raw ones.
    """

    title: str
    cells: Callable[[Path], Sequence[Cell]]
    marks: tuple[str, ...]
    download: str
    never: tuple[str, ...] = ()
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
        """Whether a folder is the root of such a data set."""
        there = all(any(root.glob(mark)) for mark in self.marks)
        return there and not any(any(root.glob(mark)) for mark in self.never)
