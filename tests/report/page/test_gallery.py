import base64

import cv2
import numpy as np
import pytest
from panel_files import save_panels
from run_records import record, rich_record

from mmseg_reservoir.report.page.gallery import gallery
from mmseg_reservoir.report.shown_run import ShownRun


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
