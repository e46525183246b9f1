"""Every kind of damage is found, once, in the right cell, and nothing else is."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check import checks
from mmseg_reservoir.datasets.check.checks import array_fault, label_fault
from mmseg_reservoir.datasets.disk_layout import Array


def only(problems):
    assert len(problems) == 1, problems
    return problems[0]


def test_a_good_data_set_has_no_problems(small):
    assert small.problems() == []
    assert small.notes() == [
        (checks.SPLIT_ABSENT.title, f"test/{c}", f"no *_rgb_anon.png below rgb_anon/{c}/test")
        for c in ("fog", "rain")
    ]


def test_files_that_come_with_acdc_are_no_problem(small):
    for kind in ("labelIds", "labelColor", "invIds", "invGray"):
        small.write(small.label(kind=kind), np.full((4, 6), 30))
    small.write(small.root / "rgb_anon/fog/train_ref/GOPR1/0_rgb_ref_anon.png", np.zeros((4, 6)))
    assert small.problems() == []


@pytest.mark.parametrize("fast", [False, True])
def test_a_missing_condition(small, fast):
    shutil.rmtree(small.root / "rgb_anon/fog")
    shutil.rmtree(small.root / "gt/fog")
    expected = (checks.NO_IMAGES.title, "train/fog", "no *_rgb_anon.png below rgb_anon/fog/train")
    assert only(small.problems(fast=fast)) == expected


def test_images_under_another_suffix_are_named(small):
    for index in range(2):
        small.image(index=index).rename(small.image(index=index).with_name(f"{index}.jpg"))
        small.label(index=index).unlink()
    assert only(small.problems())[2].endswith(
        "train, but 2 other files: rgb_anon/fog/train/GOPR1/0.jpg"
    )


def test_half_of_an_optional_split_is_a_problem(small):
    small.write(small.root / "rgb_anon/fog/test/GOPR1/0_rgb_anon.png", np.full((4, 6, 3), 9))
    assert only(small.problems())[:2] == (checks.NO_IMAGES.title, "test/rain")


def test_wrong_count(small):
    small.image().unlink()
    small.label().unlink()
    text = "rgb_anon/fog/train: 1, expected 2"
    assert only(small.problems()) == (checks.WRONG_COUNT.title, "train/fog", text)


def test_image_without_label(small):
    small.label("rain", 1).unlink()
    title, cell, text = only(small.problems())
    assert (title, cell) == (checks.NO_LABEL.title, "train/rain")
    assert text == (
        "rgb_anon/rain/train/GOPR1/1_rgb_anon.png: no gt/rain/train/GOPR1/1_gt_labelTrainIds.png"
    )


def test_only_label_ids(small):
    small.label().rename(small.label(kind="labelIds"))
    assert only(small.problems())[:2] == (checks.RAW_ONLY.title, "train/fog")


def test_optional_labels_may_be_absent_but_not_in_part(small):
    layout = replace(small.layout, labels_needed=False)
    small.label("fog", 0).unlink()
    assert only(small.problems(layout))[:2] == (checks.NO_LABEL.title, "train/fog")
    small.label("fog", 1).rename(small.label("fog", 1, kind="labelIds"))
    assert small.problems(layout) == []
    titles = [title for title, cell, _ in small.notes(layout) if cell == "train/fog"]
    assert titles == [checks.NO_LABELS_YET.title, checks.RAW_ONLY_YET.title]


def test_label_without_image(small):
    small.write(small.label(index=7), np.zeros((4, 6)))
    text = "gt/fog/train/GOPR1/7_gt_labelTrainIds.png"
    assert only(small.problems()) == (checks.NO_IMAGE.title, "train/fog", text)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("what", ["image", "label"])
def test_empty_files(small, what, fast):
    getattr(small, what)().write_bytes(b"")
    assert only(small.problems(fast=fast))[:2] == (checks.EMPTY.title, "train/fog")


@pytest.mark.parametrize("what", ["image", "label"])
def test_truncated_files(small, what):
    path = getattr(small, what)()
    path.write_bytes(path.read_bytes()[:-13])
    title, cell, text = only(small.problems())
    assert (title, cell) == (checks.UNREADABLE.title, "train/fog")
    assert text.startswith(f"{path.relative_to(small.root)} is truncated")
    assert small.problems(fast=True) == []


def test_label_of_another_size(small):
    small.write(small.label(), np.zeros((2, 3)))
    title, _, text = only(small.problems())
    assert title == checks.SIZES_DIFFER.title
    assert text.endswith("0_gt_labelTrainIds.png: 2 x 3, its image 4 x 6")


def test_image_of_another_size_than_published(small):
    small.write(small.image(), np.zeros((2, 3, 3)))
    small.write(small.label(), np.zeros((2, 3)))
    title, _, text = only(small.problems())
    assert title == checks.WRONG_SIZE.title
    assert text.endswith("0_rgb_anon.png: 2 x 3, not 4 x 6")
    assert small.problems(replace(small.layout, size=None)) == []


@pytest.mark.parametrize(
    ("pixels", "kind"),
    [
        (np.full((4, 6), 26), checks.RAW_IDS),
        (np.full((4, 6), 99), checks.BAD_VALUES),
        (np.full((4, 6), 255), checks.ALL_IGNORED),
        (np.full((4, 6, 3), 7), checks.COLORS),
    ],
)
def test_label_values(small, pixels, kind):
    small.write(small.label(), pixels)
    assert only(small.problems())[:2] == (kind.title, "train/fog")


def test_a_copy_in_another_condition(small):
    shutil.copy(small.image("fog", 1), small.image("rain", 0))
    title, cell, text = only(small.problems())
    assert (title, cell) == (checks.DUPLICATES.title, "train/rain")
    first = "rgb_anon/fog/train/GOPR1/1_rgb_anon.png"
    assert text == f"rgb_anon/rain/train/GOPR1/0_rgb_anon.png = {first}"


def test_twins_within_a_condition_are_left_alone(small):
    shutil.copy(small.image("fog", 1), small.image("fog", 0))
    assert small.problems() == []


@pytest.mark.parametrize("values", [(0,), (18,), tuple(range(19)), (3, 255)])
def test_train_ids_are_fine(values):
    assert label_fault(values, LAYOUTS["acdc"]) is None


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ((7, 8, 11, 21, 23, 26), checks.RAW_IDS, ": has 21, 23, 26"),
        ((7, 33, 255), checks.RAW_IDS, ": has 33"),
        ((0, 34), checks.BAD_VALUES, ": has 34"),
        ((0, 19, 70, 200), checks.BAD_VALUES, ": has 19, 70, 200"),
        (tuple(range(60)), checks.BAD_VALUES, ": has 19, 20, 21, 22, 23, 24, 25, 26, ..."),
        ((255,), checks.ALL_IGNORED, ": only 255"),
        (None, checks.COLORS, ": has several channels"),
    ],
)
def test_mistakes_are_told_apart(values, kind, text):
    assert label_fault(values, LAYOUTS["acdc"]) == (kind, text)


def test_arrays():
    wanted = Array((4,), classes=2)
    assert array_fault(((4,), "uint8"), (0, 1), wanted) is None
    assert array_fault(((4,), "int64"), (0, 1), wanted) is None
    assert array_fault(((4,), "uint8"), (0, 1, 9), wanted) == "3 classes from 0 to 9, not 2"
    assert array_fault(((4,), "float32"), None, wanted) == "float32 (4,), not integers (4,)"
    pixels = Array((2, 3), "uint8")
    assert array_fault(((2, 3), "uint8"), None, pixels) is None
    assert array_fault(((2, 2), "uint8"), None, pixels) == "uint8 (2, 2), not uint8 (2, 3)"
    assert array_fault(((2, 3), "float32"), None, pixels) == "float32 (2, 3), not uint8 (2, 3)"
