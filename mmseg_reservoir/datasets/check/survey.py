"""Find a data set on disk: its root, its files, and the label of each image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from ...errors import ReservoirError
from .. import LAYOUTS
from ..disk_layout import Cell, Layout
from .file_facts import Facts, examine, glance


@dataclass(frozen=True)
class Files:
    """The sorted files of one cell. Keys are paths below the folder without the suffix.

    Attributes:
        raw: Keys of the labels that do not hold train ids.
        others: Files with another suffix in the folder of images.
        missing: Names that the cell lists but that are not on disk.
    """

    cell: Cell
    images: dict[str, Path]
    labels: dict[str, Path] = field(default_factory=dict)
    raw: frozenset[str] = frozenset()
    others: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[str]:
        """Keys with an image and a label."""
        return [key for key in self.images if key in self.labels]

    @property
    def used(self) -> list[Path]:
        """Files that a run reads: every image, and its label if it exists."""
        return [*self.images.values(), *(self.labels[key] for key in self.pairs)]


@dataclass
class Survey:
    """A data set on disk.

    Attributes:
        layout: The published layout.
        facts: Facts about each file, from `read_files`.
        decoded: Whether the files were read and not only listed.
    """

    layout: Layout
    root: Path
    cells: list[Files]
    facts: dict[Path, Facts] = field(default_factory=dict)
    decoded: bool = False

    def name(self, path: Path) -> str:
        """Return the name of a file for messages."""
        return path.relative_to(self.root).as_posix()


def check_root(root: Path, name: str) -> None:
    """Raise an error if a folder is not the root of a data set; suggest the right one."""
    layout = LAYOUTS[name]
    if not root.exists():
        raise ReservoirError(f"no folder {root}; {layout.download.format(root=root)}")
    if layout.fits(root):
        return
    message = f"{root} is not the root of {layout.title} (no {' or '.join(layout.markers)} in it)"
    if near := _nearby_root(root, layout):
        raise ReservoirError(f"{message}; did you mean {near}?")
    for other_name, other in LAYOUTS.items():
        if other.fits(root):
            raise ReservoirError(
                f"{root} is {other.title}, not {layout.title}: check it with {other_name!r}"
            )
    raise ReservoirError(f"{message}; {layout.download.format(root=root)}")


def _nearby_root(root: Path, layout: Layout) -> Path | None:
    """Return the root of a data set up to two levels above a folder or one below, if any."""
    above = list(root.absolute().parents)[:2]
    below = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return next((path for path in (*above, *below) if layout.fits(path)), None)


def list_files(layout: Layout, root: Path) -> Survey:
    """Return the files of every cell."""
    listed = []
    for cell in layout.cells(root):
        if cell.files is not None:
            images = {name: root / name for name in sorted(cell.files) if (root / name).is_file()}
            missing = tuple(name for name in cell.files if name not in images)
            listed.append(Files(cell, images, missing=missing))
            continue
        images = _by_key(root, cell.images, layout.image_suffix)
        labels = _by_key(root, cell.labels, layout.label_suffix)
        raw = _by_key(root, cell.labels, layout.raw_label_suffix)
        others = set(_walk(root / cell.images)) - set(images.values())
        listed.append(Files(cell, images, labels, frozenset(raw), tuple(sorted(others))))
    return Survey(layout, root, listed)


def read_files(survey: Survey, workers: int = 1, fast: bool = False) -> Iterator[int]:
    """Add the facts to a survey; yield the number of files done, for a progress bar.

    Args:
        survey: Result of `list_files`.
        workers: Number of processes that decode files. Defaults to 1.
        fast: Whether to read only the sizes. Defaults to False.
    """
    images = [path for files in survey.cells for path in files.images.values()]
    labels = [path for files in survey.cells for path in files.labels.values()]
    paths, are_labels = images + labels, [False] * len(images) + [True] * len(labels)
    with ExitStack() as stack:
        results: Iterator[Facts]
        if fast:
            results = map(glance, paths)
        elif workers == 1:
            results = map(examine, paths, are_labels)
        else:
            # Spawn, because a fork may hang: the progress bar runs a thread in this process.
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            results = stack.enter_context(pool).map(examine, paths, are_labels, chunksize=4)
        try:
            for count, (path, facts) in enumerate(zip(paths, results, strict=True), start=1):
                survey.facts[path] = facts
                yield count
        except BrokenProcessPool as error:
            raise ReservoirError(
                "a process that decoded files was ended, perhaps for want of memory; "
                "use fewer with --workers"
            ) from error
    survey.decoded = not fast


def _by_key(root: Path, part: str | None, suffix: str | tuple[str, ...] | None) -> dict[str, Path]:
    if part is None or suffix is None:
        return {}
    folder = root / part
    # Images with several valid suffixes have no labels. Their keys keep the suffix, because one
    # name may exist with two suffixes.
    cut = suffix if isinstance(suffix, str) else ""
    return {
        path.relative_to(folder).as_posix().removesuffix(cut): path
        for path in _walk(folder)
        if path.name.endswith(suffix)
    }


def _walk(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted. Hidden files are left out, as in mmengine."""
    return sorted(
        Path(parent) / name
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
        if not name.startswith(".")
    )
