import cv2
import numpy as np
import pytest
from mmseg.datasets import CityscapesDataset

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.label_images import legend, overlay, paint, to_label_ids, write_image

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


def test_a_picture_is_written_with_its_folder_and_a_failure_is_told(tmp_path):
    write_image(tmp_path / "a" / "b.png", np.full((2, 2), 7, np.uint8))
    assert cv2.imread(str(tmp_path / "a" / "b.png"), cv2.IMREAD_GRAYSCALE).max() == 7
    (tmp_path / "c.png").mkdir()
    with pytest.raises(ReservoirError, match=r"cannot write .*c\.png"):
        write_image(tmp_path / "c.png", np.zeros((2, 2), np.uint8))
