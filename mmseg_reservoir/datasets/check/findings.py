"""What is wrong, with one way to mend each kind of thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of problem.

    Attributes:
        title: What is wrong.
        fix: What to do; may name ``{download}`` and ``{make_labels}``.
        is_note: Whether it is worth saying, but no error.
    """

    title: str
    fix: str
    is_note: bool = False


@dataclass(frozen=True)
class Finding:
    """One instance: where, and the details."""

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
COLOURS = Kind(
    "labels with colours instead of ids", "use *labelTrainIds.png, not *Color.png: {make_labels}"
)
BAD_VALUES = Kind("labels with values that are no class", "replace them: {make_labels}")
ALL_IGNORED = Kind("labels that ignore every pixel", "they score nothing: {make_labels}")
DUPLICATES = Kind(
    "images that appear in several splits or conditions", "remove the copies: {download}"
)
