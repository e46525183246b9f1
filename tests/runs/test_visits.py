import json

import pytest
from small_outcomes import make_outcome

from mmseg_reservoir.report.scores import milliseconds_by_stage
from mmseg_reservoir.runs.record import RunRecord
from mmseg_reservoir.runs.visits import Spread, image_times, milliseconds_text

SECONDS = [9.0, 0.02, 0.01, 0.03, 0.04]  # the first step is slow


def test_one_slow_step_changes_nothing():
    times = image_times({"seconds": value} for value in SECONDS)
    assert times == Spread(0.03, 0.02, 0.04)
    assert milliseconds_text(times) == "30 (20-40)"
    assert milliseconds_text(Spread(0.0051, 0.005, 0.01)) == "5.1 (5.0-10.0)"


def test_what_was_not_measured():
    assert image_times([{"seconds": None}, {}]) is None
    assert milliseconds_text(None) == "-"
    assert image_times([{"seconds": None}, {"seconds": 2.0}]) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("scored_as", [None, "CCC"])
def test_a_record_has_medians_and_quartiles_of_its_visits_and_of_all(tmp_path, scored_as):
    record = RunRecord(tmp_path, "error", {})
    for round, shift in ((1, 0.0), (2, 1.0)):
        for batch, seconds in enumerate(SECONDS):
            outcome = make_outcome(4, seconds=4 * (seconds + shift))
            record.add_batch(round, "fog", batch, outcome, scored_as)
    record.finish({"updates": 10})
    results = json.loads((tmp_path / "results.json").read_text())
    first, second = results["visits"]
    assert (first["seconds_per_image"], first["seconds_quartiles"]) == (0.03, [0.02, 0.04])
    assert second["seconds_per_image"] == pytest.approx(1.03)
    assert results["seconds_per_image"] == pytest.approx(1.015)
    assert results["seconds_quartiles"] == pytest.approx([0.0325, 1.0375])
    assert (tmp_path / "results.csv").read_text().splitlines()[1].endswith(",0.03")


def test_a_restored_record_has_the_same_times(tmp_path):
    record = RunRecord(tmp_path, "error", {})
    for batch, seconds in enumerate(SECONDS):
        record.add_batch(1, "fog", batch, make_outcome(seconds=seconds), "CCC")
    restored = RunRecord(tmp_path, "error", {})
    restored.load_state_dict(record.state_dict())
    assert restored.finish({})["visits"] == record.finish({})["visits"]


def test_results_of_before_are_read():
    """They have means by stage, and the time of every image."""
    routes = [{"seconds": seconds, "n_images": 2} for seconds in SECONDS]
    old = {"routes": routes, "stages": {"a": 0.6, "b": 1.2}}
    assert milliseconds_by_stage(old) == pytest.approx({"a": 10.0, "b": 20.0})
