"""Check a data set for several kinds of problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..disk_layout import Array, Layout
from .survey import Files, Survey


@dataclass(frozen=True)
class Kind:
    """A kind of problem.

    Attributes:
        fix: Remedy in the imperative. It may contain ``{download}`` and ``{make_labels}``.
        is_note: Whether to report it without counting it as a problem.
    """

    title: str
    fix: str
    is_note: bool = False


@dataclass(frozen=True)
class Finding:
    """One instance of a problem."""

    kind: Kind
    cell: str
    text: str


NO_IMAGES = Kind("no images", "{download}")
SPLIT_ABSENT = Kind("splits that are not there", "only if you need them: {download}", is_note=True)
WRONG_COUNT = Kind(
    "other numbers of images than published",
    "too few: {download}; too many: remove what does not belong there",
)
MISSING = Kind("files that the data set names, but that are not there", "{download}")
NO_LABEL = Kind("images without a label", "{download}")
NO_LABELS_YET = Kind(
    "images without labels", "none needed for a source of style; else {download}", is_note=True
)
RAW_ONLY = Kind("images with labelIds, but without labelTrainIds", "{make_labels}")
RAW_ONLY_YET = Kind(
    "images with labelIds, but without labelTrainIds (needed only to score or train)",
    "{make_labels}",
    is_note=True,
)
NO_IMAGE = Kind("labels without an image", "restore the images ({download}), or remove the labels")
EMPTY = Kind("empty files", "a copy broke off, or the disk was full: {download}")
UNREADABLE = Kind("files that cannot be read", "replace them: {download}")
SIZES_DIFFER = Kind(
    "labels of another size than their image", "one of the two was resized: {download}"
)
WRONG_SIZE = Kind(
    "images of another size than published", "use the originals, configs resize them: {download}"
)
WRONG_ARRAY = Kind(
    "arrays of another shape, type or number of classes than published",
    "another data set, or files that were converted: {download}",
)
RAW_IDS = Kind(
    "labels that hold labelIds (0 to 33), not train ids (0 to 18)",
    "files were renamed or converted wrongly: {make_labels}",
)
COLORS = Kind(
    "labels with colors instead of ids", "use *labelTrainIds.png, not *Color.png: {make_labels}"
)
BAD_VALUES = Kind("labels with values that are no class", "replace them: {make_labels}")
ALL_IGNORED = Kind("labels that ignore every pixel", "they score nothing: {make_labels}")
DUPLICATES = Kind(
    "images that appear in several splits or conditions", "remove the copies: {download}"
)

Faults = Iterator[tuple[Kind, str]]


def check_all(survey: Survey) -> list[Finding]:
    """Run every check on every cell, then compare the cells."""
    checks: tuple[Callable[[Survey, Files], Faults], ...] = (
        _check_presence,
        _check_counts,
        _check_missing,
        _check_pairs,
        _check_files,
        _check_sizes,
        _check_arrays,
        _check_label_values,
    )
    faults = [
        Finding(kind, files.cell.name, text)
        for check in checks
        for files in survey.cells
        for kind, text in check(survey, files)
    ]
    return [*faults, *_check_duplicates(survey)]


def _check_presence(survey: Survey, files: Files) -> Faults:
    if files.images:
        return
    cell, suffix = files.cell, survey.layout.image_suffix
    if cell.files is not None:
        names = cell.files[0] if len(cell.files) == 1 else f"{cell.files[0]}, ..."
    else:
        names = " or ".join(f"*{s}" for s in ((suffix,) if isinstance(suffix, str) else suffix))
    text = f"no {names} below {cell.images}"
    if files.others:
        text += f", but {len(files.others)} other files: {survey.name(files.others[0])}"
    has_split = any(other.images for other in survey.cells if other.cell.split == cell.split)
    is_absent = not (cell.needed or has_split or files.others)
    yield SPLIT_ABSENT if is_absent else NO_IMAGES, text


def _check_counts(survey: Survey, files: Files) -> Faults:
    count, expected = len(files.images), files.cell.expected
    if count and expected not in (None, count) and not files.missing:
        yield WRONG_COUNT, f"{files.cell.images}: {count}, expected {expected}"


def _check_missing(survey: Survey, files: Files) -> Faults:
    if files.images:  # otherwise _check_presence reports the cell
        yield from ((MISSING, name) for name in files.missing)


def _check_pairs(survey: Survey, files: Files) -> Faults:
    if files.cell.labels is None:
        return
    # Optional labels may all be missing. If only some are missing, the copy is incomplete.
    is_optional = not survey.layout.labels_needed and not files.labels
    raw_only = RAW_ONLY_YET if is_optional else RAW_ONLY
    no_label = NO_LABELS_YET if is_optional else NO_LABEL
    for key, path in files.images.items():
        if key not in files.labels:
            label = f"{files.cell.labels}/{key}{survey.layout.label_suffix}"
            yield raw_only if key in files.raw else no_label, f"{survey.name(path)}: no {label}"
    for key, path in files.labels.items():
        if key not in files.images:
            yield NO_IMAGE, survey.name(path)


def _check_files(survey: Survey, files: Files) -> Faults:
    for path in (*files.images.values(), *files.labels.values()):
        facts = survey.facts[path]
        if facts.size == 0:
            yield EMPTY, survey.name(path)
        elif facts.fault is not None:
            yield UNREADABLE, f"{survey.name(path)} {facts.fault}"


def _check_sizes(survey: Survey, files: Files) -> Faults:
    published = survey.layout.size
    for key, path in files.images.items():
        shape = survey.facts[path].shape
        if shape is None:
            continue
        if published is not None and published != shape:
            yield WRONG_SIZE, f"{survey.name(path)}: {_size(shape)}, not {_size(published)}"
        if key in files.labels:
            label = files.labels[key]
            label_shape = survey.facts[label].shape
            if label_shape is not None and label_shape != shape:
                text = f"{survey.name(label)}: {_size(label_shape)}, its image {_size(shape)}"
                yield SIZES_DIFFER, text


def _check_arrays(survey: Survey, files: Files) -> Faults:
    if files.cell.array is None:
        return
    for path in files.images.values():
        facts = survey.facts[path]
        if facts.array is not None:
            fault = array_fault(facts.array, facts.values, files.cell.array)
            if fault is not None:
                yield WRONG_ARRAY, f"{survey.name(path)}: {fault}"


def _check_label_values(survey: Survey, files: Files) -> Faults:
    for path in files.labels.values():
        facts = survey.facts[path]
        fault = label_fault(facts.values, survey.layout) if facts.shape is not None else None
        if fault is not None:
            kind, text = fault
            yield kind, f"{survey.name(path)}{text}"


def _check_duplicates(survey: Survey) -> Iterator[Finding]:
    """Yield images that are in two cells, because folders were mixed up or splits leak."""
    if not survey.layout.unique:
        return
    copies = defaultdict(list)
    for files in survey.cells:
        for path in files.images.values():
            facts = survey.facts[path]
            if facts.sha256 is not None and facts.fault is None:
                copies[facts.sha256].append((files.cell.name, survey.name(path)))
    for (cell, first), *rest in copies.values():
        for other, copy in rest:
            if other != cell:
                yield Finding(DUPLICATES, other, f"{copy} = {first}")


def array_fault(
    array: tuple[tuple[int, ...], str], values: tuple[int, ...] | None, expected: Array
) -> str | None:
    """Return the difference of an array in shape, type or classes; None if it is as expected."""
    shape, dtype = array
    is_type = (
        np.issubdtype(dtype, np.integer) if expected.dtype is None else dtype == expected.dtype
    )
    if shape != expected.shape or not is_type:
        return f"{dtype} {shape}, not {expected.dtype or 'integers'} {expected.shape}"
    if expected.classes is not None and values != tuple(range(expected.classes)):
        assert values is not None  # arrays of classes are lists of integers, which have values
        return f"{len(values)} classes from {values[0]} to {values[-1]}, not {expected.classes}"
    return None


def label_fault(values: tuple[int, ...] | None, layout: Layout) -> tuple[Kind, str] | None:
    """Return the problem of a label by its distinct values; None if they are train ids.

    ``values`` is None if the label has several channels.
    """
    if values is None:
        return COLORS, ": has several channels"
    classes = set(values) - {layout.ignore}
    if not classes:
        return ALL_IGNORED, f": only {layout.ignore}"
    wrong = sorted(value for value in classes if not 0 <= value < layout.classes)
    if not wrong:
        return None
    text = f": has {', '.join(map(str, wrong[:8]))}{', ...' if len(wrong) > 8 else ''}"
    # Cityscapes' ids end at 33, so larger values are no ids.
    if min(wrong) >= layout.classes and max(wrong) <= layout.raw_ids:
        return RAW_IDS, text
    return BAD_VALUES, text


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"
