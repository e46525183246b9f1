import cv2
import numpy as np
import pytest
from panel_files import save_panels
from run_records import rich_record

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.frame_comparison import hard_frame, plot_frames, wrong_percent
from mmseg_reservoir.report.shown_run import ShownRun


@pytest.fixture
def runs(tmp_path):
    """Two runs that saved ``fog_0``, of which the first three columns are a car, and one more."""
    shown = []
    for name in ("Source", "align"):
        results = rich_record()
        save_panels(results, tmp_path / name)
        shown.append(ShownRun(name, results))
    return shown


@pytest.fixture
def road(tmp_path):
    """The file of a ground truth that is all road."""
    cv2.imwrite(str(tmp_path / "truth.png"), np.zeros((8, 16), np.uint8))
    return tmp_path / "truth.png"


def save_label(run, name, label):
    cv2.imwrite(str(run.panels / "round3" / "fog" / f"{name}_labelTrainIds.png"), label)


def test_pixels_without_a_class_do_not_count():
    truth = np.array([[0, 0, 1, 255]])
    assert wrong_percent(np.array([[0, 1, 1, 1]]), truth) == pytest.approx(100 / 3)


def test_the_first_run_chooses_its_worst_frame_of_the_last_round(runs, road, tmp_path):
    cv2.imwrite(str(tmp_path / "Source" / "fog_1.png"), np.full((8, 16, 3), 90, np.uint8))
    frame = hard_frame(runs, "fog", lambda image: road)
    assert (frame.labels["Source"] == 1).sum() == 3 * 8
    cars = np.ones((8, 16), np.uint8)
    save_label(runs[0], "fog_1", cars)
    assert (hard_frame(runs, "fog", lambda image: road).labels["Source"] == 1).sum() == 3 * 8
    save_label(runs[1], "fog_1", 0 * cars)  # now both have it
    frame = hard_frame(runs, "fog", lambda image: road)
    assert [int(label.sum()) for label in frame.labels.values()] == [8 * 16, 0]
    assert frame.image.max() == 90


def test_frames_that_no_run_saved_are_an_error(runs, road):
    with pytest.raises(ReservoirError, match="no frame of snow was saved by all runs in round 3"):
        hard_frame(runs, "snow", lambda image: road)


def test_the_picture_has_errors_in_red(runs, road, tmp_path):
    frames = [hard_frame(runs, domain, lambda image: road) for domain in ("fog", "night")]
    plot_frames(frames, runs[0].results["palette"], tmp_path / "frames.png")
    picture = cv2.imread(str(tmp_path / "frames.png")).astype(int)
    assert picture.shape[1] > 800
    red = (picture[..., 2] > 200) & (picture[..., 1] < 60)
    assert red.sum() > 1000
