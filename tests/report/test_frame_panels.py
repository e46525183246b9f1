import base64

import cv2
import numpy as np
import pytest
from panel_files import save_panels
from run_records import record, rich_record

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.frame_panels import gallery, hard_frame, plot_frames, wrong_percent
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


def picture(url):
    data = np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8)
    return cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1]


@pytest.fixture
def run(tmp_path):
    results = rich_record()
    save_panels(results, tmp_path)
    return ShownRun("R", results)


def test_one_frame_per_domain_with_every_visit_of_every_run(run):
    frames = gallery([run, ShownRun("no panels", record()), ShownRun("again", run.results)])
    assert [(frame["domain"], frame["name"]) for frame in frames] == [
        ("fog", "fog_0"),
        ("night", "night_0"),
    ]
    assert [layer["run"] for layer in frames[0]["layers"]] == ["R", "again"]
    visits = frames[1]["layers"][0]["visits"]
    assert list(visits) == [1, 2, 3]
    assert visits[3]["note"] == "expert 1, K = 2 · 20 % of pixels wrong"  # 3 of 15 with a class
    assert dict(frames[1]["classes"]) == {"road": [128, 64, 128], "car": [0, 0, 142]}
    truth = picture(frames[0]["truth"])
    assert truth[0, 0].tolist() == [128, 64, 128]
    assert truth[0, -1].tolist() == [0, 0, 0]  # no class
    label = picture(visits[2]["picture"])
    assert label.shape == (8, 16, 3)
    assert label[0, 1].tolist() == [0, 0, 142]  # a car
    assert label[0, 2].tolist() == [128, 64, 128]
    assert picture(frames[0]["image"]).mean() == pytest.approx(200, abs=2)


def test_large_pictures_are_made_smaller_and_many_visits_fewer(tmp_path):
    results = rich_record()
    results["routes"] = [
        {**route, "round": round} for round in range(1, 31) for route in results["routes"][:1]
    ]
    save_panels(results, tmp_path, size=(100, 1280))
    (frame,) = gallery([ShownRun("R", results)])[:1]
    visits = frame["layers"][0]["visits"]
    assert len(visits) == 10
    assert (min(visits), max(visits)) == (1, 30)
    assert picture(frame["image"]).shape == picture(visits[30]["picture"]).shape == (50, 640, 3)


def test_an_image_that_is_gone_is_left_out(run, tmp_path):
    for path in tmp_path.glob("*.png"):
        path.unlink()
    frames = gallery([run])
    assert [frame["image"] for frame in frames] == [None, None]
    assert frames[0]["layers"]


def test_without_ground_truth_there_is_neither_a_layer_nor_a_percentage(run, tmp_path):
    for path in tmp_path.rglob("*_groundTruth.png"):
        path.unlink()
    frame = gallery([run])[0]
    assert frame["truth"] is None
    assert frame["layers"][0]["visits"][1]["note"] == "expert 0, K = 2"
