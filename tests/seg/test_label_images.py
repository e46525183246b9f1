import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmseg.datasets import CityscapesDataset

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import label_images
from mmseg_reservoir.seg.label_images import (
    EXPERT_COLORS,
    draw_key,
    legend,
    overlay,
    paint,
    to_label_ids,
    write_image,
)

CLASSES, PALETTE = (CityscapesDataset.METAINFO[key] for key in ("classes", "palette"))


def test_train_ids_get_their_colours_as_bgr_and_what_has_no_class_is_black():
    painted = paint(np.array([[0, 10, 255]]), PALETTE)
    assert painted.tolist() == [[[128, 64, 128], [180, 130, 70], [0, 0, 0]]]


def test_an_overlay_leaves_what_has_no_class_as_it_is():
    image = np.full((1, 2, 3), 100, np.uint8)
    shown = overlay(image, np.array([[0, 255]]), PALETTE)
    assert shown.tolist() == [[[114, 82, 114], [100, 100, 100]]]


def test_label_ids_are_those_of_cityscapes():
    ids = to_label_ids(np.array([[0, 1, 5, 13, 18, 255]]))
    assert ids.tolist() == [[7, 8, 17, 26, 33, 255]]  # road, sidewalk, pole, car, bicycle


def test_a_legend_has_the_classes_that_occur_in_rows():
    one = legend(np.array([[0, 255]]), CLASSES, PALETTE, width=200)
    assert one.shape == (18, 200, 3)
    assert one[8, 8].tolist() == [128, 64, 128]
    everything = legend(np.arange(19)[None], CLASSES, PALETTE, width=200)
    assert everything.shape[1] == 200
    for colour in PALETTE:
        assert (everything == np.array(colour[::-1])).all(axis=2).any()
    assert legend(np.array([[255]]), CLASSES, PALETTE, width=50).min() == 255


def has_color(picture, rgb):
    return (picture == np.array(rgb[::-1])).all(axis=2).any()


def test_a_key_has_the_expert_and_the_largest_classes_in_a_corner():
    label = np.full((400, 800), 255)
    for index in range(8):  # the areas grow
        label[:, 20 * index * (index + 1) // 2 : 20 * (index + 1) * (index + 2) // 2] = index
    picture = np.full((400, 800, 3), 250, np.uint8)
    shown = draw_key(picture, label, CLASSES, PALETTE, expert=12, k=13)
    assert has_color(shown, EXPERT_COLORS[2])
    assert [has_color(shown, PALETTE[index]) for index in range(8)] == [False] * 2 + [True] * 6
    assert (shown[200:] == 250).all()
    assert (shown[:, 400:] == 250).all()
    assert (picture == 250).all()


@pytest.mark.parametrize("size", [(16, 32), (24, 800), (800, 24), (1, 1)])
def test_a_picture_that_is_too_small_has_no_key(size):
    picture = np.full((*size, 3), 250, np.uint8)
    shown = draw_key(picture, np.zeros(size, int), CLASSES, PALETTE, expert=0, k=1)
    np.testing.assert_array_equal(shown, picture)


def test_experts_have_the_colors_of_the_live_page():
    page = (Path(label_images.__file__).parents[1] / "live" / "live.js").read_text().lower()
    found = [tuple(bytes.fromhex(code)) for code in re.findall(r'"#([0-9a-f]{6})"', page)]
    assert list(EXPERT_COLORS) == [color for color in found if color in EXPERT_COLORS]


def test_a_picture_is_written_with_its_folder_and_a_failure_is_told(tmp_path):
    write_image(tmp_path / "a" / "b.png", np.full((2, 2), 7, np.uint8))
    assert cv2.imread(str(tmp_path / "a" / "b.png"), cv2.IMREAD_GRAYSCALE).max() == 7
    (tmp_path / "c.png").mkdir()
    with pytest.raises(ReservoirError, match=r"cannot write .*c\.png"):
        write_image(tmp_path / "c.png", np.zeros((2, 2), np.uint8))
