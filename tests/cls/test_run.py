import csv
import json

import pytest
import torch
from plan_count import count_plans

from mmseg_reservoir.cls.run import run
from mmseg_reservoir.cls.stream import Stream
from mmseg_reservoir.datasets.source_batches import LazySource
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import table
from mmseg_reservoir.report.scores import by_domain
from mmseg_reservoir.report.summary import summarize
from mmseg_reservoir.report.tables import visit_table
from mmseg_reservoir.runs.reader import group_key, read_runs
from mmseg_reservoir.runs.route_log import read_routes


def config(**changes):
    """Two corruptions, twice, with random weights: 16 steps."""
    return {
        "data": {"type": "digits", "corruptions": ["fog", "pixelate"]},
        "model": {"type": "digits_convnet", "random": True},
        "method": {"type": "tent", "optimizer": {"type": "Adam", "lr": 1e-3}},
        "stream": {"type": "csc", "rounds": 2, "batch_size": 100},
        "randomness": {"seed": 3},
        "device": "cpu",
        **changes,
    }


SEEDED = {"preset": "published", "style": {"weights": "seeded", "taps": [0]}}
SOURCE = {"type": "digits", "num_images": 400}


def test_results_are_those_of_segmentation_with_errors(tmp_path, monkeypatch):
    plans = count_plans(monkeypatch)
    results = run(config(), tmp_path / "w", config_file="configs/cls/x.py", quiet=True)
    assert len(plans) == 1
    stored = json.loads((tmp_path / "w" / "results.json").read_text())
    assert stored["complete"] is True
    assert stored["method"] == "Tent"
    assert stored["reservoir"] is False
    assert stored["seed"] == 3
    assert stored["config_file"] == "configs/cls/x.py"
    assert stored["updates"] == {
        "updates": 8,
        "skipped": 0,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }
    assert stored["visits"] == results["visits"]
    order = [(visit["round"], visit["domain"], visit["n_images"]) for visit in stored["visits"]]
    assert order == [(1, "fog", 200), (1, "pixelate", 200), (2, "fog", 200), (2, "pixelate", 200)]
    assert {"error", "k", "seconds_per_image"} <= set(stored["visits"][0])
    assert len(stored["routes"]) == 8
    assert stored["routes"][0]["domain"] == "fog"
    with (tmp_path / "w" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["error"]) for row in rows] == [v["error"] for v in stored["visits"]]
    assert "pixelate" in visit_table(stored["visits"])
    assert list(by_domain(stored["visits"])) == ["fog", "pixelate"]


def test_errors_are_counted_from_the_predictions(tmp_path):
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3072, 10), torch.nn.BatchNorm1d(10)
    )
    torch.nn.init.zeros_(net[1].weight)
    net[2].bias.data[:] = torch.eye(10)[4]  # everything is a four
    from mmseg_reservoir.datasets.digits import digits

    table("backbone")["fours"] = lambda pretrained: net
    try:
        options = config(model={"type": "fours", "pretrained": True}, method="source")
        results = run({**options, "statistics": "running"}, tmp_path, quiet=True)
    finally:
        del table("backbone")["fours"]
    wrong = 100 * float((digits(train=False).labels != 4).mean())
    assert [visit["error"] for visit in results["visits"]] == pytest.approx([wrong] * 4)


@pytest.mark.slow
def test_a_seed_says_everything(tmp_path):
    def errors(seed, name):
        options = config(randomness={"seed": seed}, reservoir=SEEDED, source_images=SOURCE)
        results = run(options, tmp_path / name, quiet=True)
        return [visit["error"] for visit in results["visits"]], results["stream"]["order"]

    first = errors(0, "a")
    torch.rand(7)
    assert errors(0, "b") == first
    assert errors(1, "c")[1] != first[1]


def test_reservoir_opens_experts_and_summary_groups_its_seeds(tmp_path):
    for seed in (0, 1):
        options = config(randomness={"seed": seed}, reservoir=SEEDED, source_images=SOURCE)
        results = run(options, tmp_path / str(seed), "configs/cls/y_reservoir.py", quiet=True)
    assert results["reservoir"] is True
    assert results["tau"] > 0
    assert results["routes"][0]["opened"] is True
    assert results["routes"][-1]["k"] == 1 + max(route["expert"] for route in results["routes"])
    groups, warnings = summarize(read_runs([tmp_path]))
    assert len(groups) == 1
    assert warnings == []
    assert groups[0].metric == "error"
    assert groups[0].seeds == [0, 1]
    assert len(groups[0].scores["mean"]) == 2


def test_learning_rates_are_different_groups(tmp_path):
    one = {"seed": 0, "config": config()}
    assert group_key(one) == group_key({"seed": 1, "config": config(randomness={"seed": 1})})
    other = config(method={"type": "tent", "optimizer": {"type": "Adam", "lr": 1e-2}})
    assert group_key(one) != group_key({"seed": 0, "config": other})


@pytest.mark.parametrize("turns", ["uniform", "dirichlet"])
def test_batches_of_a_visit_need_not_be_neighbours(tmp_path, turns):
    stream = {"type": "cdc", "turns": turns, "rounds": 2, "batch_size": 40}
    results = run(config(stream=stream, method="source"), tmp_path, quiet=True)
    visits = {(visit["round"], visit["domain"]): visit["n_images"] for visit in results["visits"]}
    assert len(results["visits"]) == 4
    assert set(visits.values()) == {200}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methd": {}}, r"no use for 'methd' \(did you mean 'method'\?\)"),
        ({"data": None}, "the config has no 'data'"),
        ({"data": {"type": "digit"}}, r"unknown data set 'digit' \(did you mean 'digits'\?\)"),
        ({"model": {"type": "digits_convnet"}}, "has no weights"),
        ({"stream": {"type": "csb"}}, "unknown stream 'csb'"),
        ({"stream": {"rounds": 0}}, "rounds must be a whole number of at least 1"),
        ({"method": "eata"}, "learns from source images: name them, source_images="),
        ({"reservoir": SEEDED}, "learns from source images: name them, source_images="),
        ({"source_images": {"type": "cifar"}}, "unknown source 'cifar'"),
        ({"source_images": {"type": "digits", "num_image": 3}}, "did you mean 'num_images'"),
        ({"source_images": {**SOURCE, "num_images": 0}}, "num_images must be a whole .* got 0"),
        ({"device": "gpu0"}, "there is no device 'gpu0' here"),
        ({"saving": {"report": print}}, "saving has no option 'report'"),
        ({"method": "tant"}, "unknown adaptation method 'tant'"),
    ],
)
def test_mistakes_are_named(tmp_path, changes, message):
    with pytest.raises(ReservoirError, match=message):
        run(config(**changes), tmp_path, quiet=True)
    assert not (tmp_path / "results.json").exists()


def test_what_was_measured_before_an_error_is_kept(tmp_path, monkeypatch):
    read = Stream._read

    def broken(self, index, step):
        if index == 3:
            raise ReservoirError("a broken file")
        return read(self, index, step)

    monkeypatch.setattr(Stream, "_read", broken)
    with pytest.raises(ReservoirError, match="a broken file"):
        run(config(), tmp_path, quiet=True)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["complete"] is False
    assert [route["batch"] for route in read_routes(tmp_path)] == [0, 1, 2]


def test_source_is_not_looked_for_until_it_is_needed(tmp_path):
    source = {"type": "cifar10", "root": str(tmp_path / "nowhere"), "num_images": 10}
    run(config(source_images=source), tmp_path / "w", quiet=True)  # TENT needs none
    lazy = LazySource(source, batch_size=5, seed=0)
    with pytest.raises(ReservoirError, match="nowhere"):
        next(iter(lazy))
    batches = list(LazySource(SOURCE, batch_size=150, seed=0))
    assert [len(images) for images, _ in batches] == [150, 150]
