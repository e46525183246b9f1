import json

import torch

from mmseg_reservoir.cls.results import ResultsRecord
from mmseg_reservoir.cls.stream import StreamBatch
from mmseg_reservoir.core.pipeline import Outcome
from mmseg_reservoir.core.router import Route


def step(record, domain, round, right, count=4, k=1):
    labels = torch.arange(count) % 2
    logits = torch.eye(2)[torch.where(torch.arange(count) < right, labels, 1 - labels)]
    outcome = Outcome(logits, Route(k - 1, torch.eye(k)[k - 1], False), k)
    batch = StreamBatch(torch.zeros(count, 3, 2, 2), labels, domain, round, index=0)
    return record.add(batch, outcome, seconds=0.8)


def test_scores_of_a_visit_are_over_its_images(tmp_path):
    record = ResultsRecord({"seed": 0}, tmp_path)
    assert step(record, "fog", 1, right=4)["error"] == 0
    visit = step(record, "fog", 1, right=1, count=2, k=2)
    assert visit["error"] == 100 / 6
    assert visit["n_images"] == 6
    assert visit["k"] == 2
    assert visit["seconds_per_image"] == 1.6 / 6
    assert record.results["routes"][1]["seconds"] == 0.4
    assert record.results["routes"][1]["weight"] == 1


def test_a_round_is_on_disk_before_the_next_one_and_unfinished_until_the_end(tmp_path):
    record = ResultsRecord({"seed": 0}, tmp_path)
    step(record, "fog", 1, right=3)
    assert not (tmp_path / "results.json").exists()
    step(record, "fog", 2, right=3)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["complete"] is False
    assert [visit["round"] for visit in stored["visits"]] == [1]
    record.finish({"updates": 2}, cpu_seconds=1.5)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["complete"] is True
    assert stored["cpu_seconds"] == 1.5
    assert len(stored["visits"]) == 2
    assert [path.name for path in tmp_path.iterdir()].count("results.json") == 1


def test_endless_changes_are_one_domain_and_broken_logits_are_no_number(tmp_path):
    record = ResultsRecord({}, tmp_path, one_domain="CCC")
    step(record, "fog+snow", 1, right=4)
    visit = step(record, "snow+jpeg", 1, right=0)
    assert (visit["domain"], visit["error"]) == ("CCC", 50)
    assert [route["domain"] for route in record.results["routes"]] == ["fog+snow", "snow+jpeg"]
    logits = torch.full((2, 2), torch.nan)
    batch = StreamBatch(torch.zeros(2, 3, 2, 2), torch.zeros(2).long(), "fog", 1, 2)
    record.add(batch, Outcome(logits, Route(0, torch.ones(1), False), 1), 0.1)
    assert record.results["routes"][-1]["entropy"] is None
