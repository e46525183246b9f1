"""The checks: each yields what is wrong with a cell; none knows a particular data set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from ..disk_layout import Array, Layout
from . import findings as kinds
from .findings import Finding, Kind
from .survey import Files, Survey

Faults = Iterator[tuple[Kind, str]]
CHECKS: list[Callable[[Survey, Files], Faults]] = []


def check_all(survey: Survey) -> list[Finding]:
    """Run every check on every cell, then compare the cells."""
    faults = [
        Finding(kind, files.cell.name, text)
        for check in CHECKS
        for files in survey.cells
        for kind, text in check(survey, files)
    ]
    return [*faults, *check_duplicates(survey)]


@CHECKS.append
def check_presence(survey: Survey, files: Files) -> Faults:
    """Images in every cell; a split that nobody needs may be absent as a whole."""
    if files.images:
        return
    cell, suffix = files.cell, survey.layout.image_suffix
    if cell.files is not None:
        wanted = cell.files[0] if len(cell.files) == 1 else f"{cell.files[0]}, ..."
    else:
        wanted = " or ".join(f"*{s}" for s in ((suffix,) if isinstance(suffix, str) else suffix))
    text = f"no {wanted} below {cell.images}"
    if files.others:
        text += f", but {len(files.others)} other files: {survey.name(files.others[0])}"
    split_is_there = any(other.images for other in survey.cells if other.cell.split == cell.split)
    absent = not (cell.needed or split_is_there or files.others)
    yield kinds.SPLIT_ABSENT if absent else kinds.NO_IMAGES, text


@CHECKS.append
def check_counts(survey: Survey, files: Files) -> Faults:
    """As many images as were published."""
    count, expected = len(files.images), files.cell.expected
    if count and expected not in (None, count) and not files.missing:
        yield kinds.WRONG_COUNT, f"{files.cell.images}: {count}, expected {expected}"


@CHECKS.append
def check_missing(survey: Survey, files: Files) -> Faults:
    """Every file that the data set names, unless the whole cell is absent."""
    if files.images:
        yield from ((kinds.MISSING, name) for name in files.missing)


@CHECKS.append
def check_pairs(survey: Survey, files: Files) -> Faults:
    """Images with labels, and labels with images."""
    if files.cell.labels is None:
        return
    # Where labels are optional, having none is fine, and having some is a broken copy.
    fine = not survey.layout.labels_needed and not files.labels
    raw_only = kinds.RAW_ONLY_YET if fine else kinds.RAW_ONLY
    no_label = kinds.NO_LABELS_YET if fine else kinds.NO_LABEL
    for key, path in files.images.items():
        if key not in files.labels:
            wanted = f"{files.cell.labels}/{key}{survey.layout.label_suffix}"
            yield raw_only if key in files.raw else no_label, f"{survey.name(path)}: no {wanted}"
    for key, path in files.labels.items():
        if key not in files.images:
            yield kinds.NO_IMAGE, survey.name(path)


@CHECKS.append
def check_files(survey: Survey, files: Files) -> Faults:
    """Files that hold something, and decode."""
    for path in (*files.images.values(), *files.labels.values()):
        facts = survey.facts[path]
        if facts.size == 0:
            yield kinds.EMPTY, survey.name(path)
        elif facts.fault is not None:
            yield kinds.UNREADABLE, f"{survey.name(path)} {facts.fault}"


@CHECKS.append
def check_sizes(survey: Survey, files: Files) -> Faults:
    """Images of the published size, and labels of the size of their image."""
    for key, path in files.images.items():
        shape = survey.facts[path].shape
        if shape is None:
            continue
        if survey.layout.size not in (None, shape):
            text = f"{survey.name(path)}: {_size(shape)}, not {_size(survey.layout.size)}"
            yield kinds.WRONG_SIZE, text
        label = files.labels.get(key)
        label_shape = survey.facts[label].shape if label is not None else None
        if label_shape not in (None, shape):
            text = f"{survey.name(label)}: {_size(label_shape)}, its image {_size(shape)}"
            yield kinds.SIZES_DIFFER, text


@CHECKS.append
def check_arrays(survey: Survey, files: Files) -> Faults:
    """Arrays of the published shape and type; arrays of labels with all classes."""
    wanted = files.cell.array
    for path in files.images.values() if wanted is not None else ():
        facts = survey.facts[path]
        fault = array_fault(facts.array, facts.values, wanted) if facts.array is not None else None
        if fault is not None:
            yield kinds.WRONG_ARRAY, f"{survey.name(path)}: {fault}"


@CHECKS.append
def check_label_values(survey: Survey, files: Files) -> Faults:
    """Labels that hold train ids."""
    for path in files.labels.values():
        facts = survey.facts[path]
        fault = label_fault(facts.values, survey.layout) if facts.shape is not None else None
        if fault is not None:
            kind, text = fault
            yield kind, f"{survey.name(path)}{text}"


def check_duplicates(survey: Survey) -> Iterator[Finding]:
    """No image in two cells: a folder was copied over another, or splits leak."""
    if not survey.layout.unique:
        return
    places = defaultdict(list)
    for files in survey.cells:
        for path in files.images.values():
            facts = survey.facts[path]
            if facts.sha256 is not None and facts.fault is None:
                places[facts.sha256].append((files.cell.name, survey.name(path)))
    for (cell, first), *rest in places.values():
        for other, copy in rest:
            if other != cell:
                yield Finding(kinds.DUPLICATES, other, f"{copy} = {first}")


def array_fault(
    array: tuple[tuple[int, ...], str], values: tuple[int, ...] | None, wanted: Array
) -> str | None:
    """How an array (shape, type) and its distinct values differ from what is wanted, or None."""
    shape, dtype = array
    right_type = np.issubdtype(dtype, np.integer) if wanted.dtype is None else dtype == wanted.dtype
    if shape != wanted.shape or not right_type:
        return f"{dtype} {shape}, not {wanted.dtype or 'integers'} {wanted.shape}"
    if wanted.classes is not None and values != tuple(range(wanted.classes)):
        return f"{len(values)} classes from {values[0]} to {values[-1]}, not {wanted.classes}"
    return None


def label_fault(values: tuple[int, ...] | None, layout: Layout) -> tuple[Kind, str] | None:
    """The kind of mistake in a label and its details; None if its values are train ids.

    It has no distinct values (None) if it has several channels.
    """
    if values is None:
        return kinds.COLOURS, ": has several channels"
    counted = set(values) - {layout.ignore}
    if not counted:
        return kinds.ALL_IGNORED, f": only {layout.ignore}"
    wrong = sorted(value for value in counted if not 0 <= value < layout.classes)
    if not wrong:
        return None
    text = f": has {', '.join(map(str, wrong[:8]))}{', ...' if len(wrong) > 8 else ''}"
    # Cityscapes' ids go to 33; a picture with nothing beyond 33 is one of ids, not of noise.
    if min(wrong) >= layout.classes and max(wrong) <= layout.raw_ids:
        return kinds.RAW_IDS, text
    return kinds.BAD_VALUES, text


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"
