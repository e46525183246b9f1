import json
from types import SimpleNamespace

import pytest
import torch
from small_outcomes import make_outcome

from mmseg_reservoir.cls import stream_tester
from mmseg_reservoir.cls.stream import StreamBatch
from mmseg_reservoir.cls.stream_tester import StreamTest
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.record import RunRecord
from mmseg_reservoir.runs.route_log import read_routes


def results_in(folder, scored_as=None):
    stream = SimpleNamespace(scored_as=scored_as)
    return StreamTest(None, stream, RunRecord(folder, "error", {"seed": 0}), None)


def step(scores, domain, round, right, count=4, k=1):
    labels = torch.arange(count) % 2
    logits = torch.eye(2)[torch.where(torch.arange(count) < right, labels, 1 - labels)]
    outcome = make_outcome(logits=logits, expert=k - 1, k=k, seconds=0.8)
    batch = StreamBatch(torch.zeros(count, 3, 2, 2), labels, domain, round, index=0)
    return scores.score(batch, outcome)


def test_scores_of_a_visit_are_over_its_images(tmp_path):
    scores = results_in(tmp_path)
    assert step(scores, "fog", 1, right=4).score == 0
    visit = step(scores, "fog", 1, right=1, count=2, k=2)
    assert visit.score == 100 / 6
    assert visit.n_images == 6
    assert visit.k == 2
    assert visit.seconds == 1.6
    assert scores.record.routes[1]["seconds"] == 0.4
    assert scores.record.routes[1]["weight"] == 1


def test_a_round_is_on_disk_before_the_next_one_and_unfinished_until_the_end(tmp_path):
    scores = results_in(tmp_path)
    step(scores, "fog", 1, right=3)
    assert not (tmp_path / "results.json").exists()
    step(scores, "fog", 2, right=3)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["complete"] is False
    assert [visit["round"] for visit in stored["visits"]] == [1]
    scores.record.finish({"updates": 2}, cpu_seconds=1.5)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["complete"] is True
    assert stored["cpu_seconds"] == 1.5
    assert len(stored["visits"]) == 2
    assert [path.name for path in tmp_path.iterdir()].count("results.json") == 1


def test_endless_changes_are_one_domain_and_broken_logits_are_no_number(tmp_path):
    scores = results_in(tmp_path, scored_as="CCC")
    step(scores, "fog+snow", 1, right=4)
    visit = step(scores, "snow+jpeg", 1, right=0)
    assert (visit.domain, visit.score) == ("CCC", 50)
    assert [route["domain"] for route in scores.record.routes] == ["fog+snow", "snow+jpeg"]
    logits = torch.full((2, 2), torch.nan)
    batch = StreamBatch(torch.zeros(2, 3, 2, 2), torch.zeros(2).long(), "fog", 1, 2)
    scores.score(batch, make_outcome(logits=logits))
    newest = scores.record.routes[-1]
    assert (newest["entropy"], newest["marginal_entropy"]) == (None, None)


def test_a_model_with_too_few_classes_is_noticed(tmp_path):
    scores = results_in(tmp_path)
    batch = StreamBatch(torch.zeros(2, 3, 2, 2), torch.tensor([0, 6]), "sketch", 1, 0)
    outcome = make_outcome(logits=torch.zeros(2, 3))
    with pytest.raises(ReservoirError, match=r"has 3 classes, .* sketch is of class 6"):
        scores.score(batch, outcome)


def test_a_long_visit_is_on_disk_before_it_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_tester, "WRITE_INTERVAL", -1.0)  # it has always passed
    scores = results_in(tmp_path, scored_as="CCC")
    for batch in range(3):
        step(scores, "fog", 1, right=4)
        assert len(read_routes(tmp_path)) == batch  # all but the newest
