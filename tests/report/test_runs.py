import json

import pytest
from run_records import record, write

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.runs import find_differences, group_key, group_names, read_runs


def test_finds_runs_in_and_below_folders(tmp_path):
    first = write(tmp_path / "a", record(seed=0))
    second = write(tmp_path / "deep" / "er" / "b", record(seed=1))
    found = read_runs([tmp_path])
    assert set(found) == {first, second}
    assert found[second]["seed"] == 1
    assert set(read_runs([tmp_path / "a"])) == {first}
    assert set(read_runs([first])) == {first}


def test_wrong_folders_and_files_are_named(tmp_path):
    with pytest.raises(ReservoirError, match=r"no results.json in or below .*nowhere"):
        read_runs([tmp_path / "nowhere"])
    path = tmp_path / "results.json"
    path.write_text("{")
    with pytest.raises(ReservoirError, match=r"results.json is no JSON of a run"):
        read_runs([path])
    path.write_text(json.dumps({"seed": 1, "visits": [], "routes": [], "complete": True}))
    with pytest.raises(ReservoirError, match="has no config: it is not"):
        read_runs([path])


def test_key_ignores_the_seed_and_what_only_shows():
    key = group_key(record(seed=0))
    assert group_key(record(seed=1)) == key
    shown = record(seed=0)
    shown["config"] |= {"work_dir": "elsewhere", "log_level": "ERROR", "experiment_name": "x"}
    shown["config"]["custom_hooks"].append({"type": "PseudoLabelHook", "show_dir": "panels"})
    assert group_key(shown) == key
    assert group_key(record(seed=0, lr=2e-4)) != key
    other = record(seed=0)
    other["config"]["custom_hooks"].append({"type": "SomeHook"})
    assert group_key(other) != key
    deterministic = record(seed=0)
    deterministic["config"]["randomness"]["deterministic"] = True
    assert group_key(deterministic) != key


def test_groups_of_one_config_are_named_by_their_options():
    groups = [
        {"a": record(seed=0, lr=1e-4)},
        {"b": record(seed=0, lr=1e-5)},
        {"c": record(seed=0, config_file="configs/other.py")},
    ]
    assert group_names(groups) == [
        "tent (method.optimizer.lr=0.0001)",
        "tent (method.optimizer.lr=1e-05)",
        "other",
    ]


def test_only_real_differences_are_told():
    a, b = record(seed=0), record(seed=1)
    assert find_differences("tent", {"a": a, "b": b}) == []
    a["data"] = {"fog": {"sha256": "12", "images": 400}}
    assert find_differences("tent", {"a": a, "b": b}) == []  # b was made before it was recorded
    b["data"] = {"fog": {"sha256": "34", "images": 400}}
    assert find_differences("tent", {"a": a, "b": b}) == [
        "tent: different data in a and b (fog.sha256: 12 and 34)"
    ]


def test_versions_order_and_length_are_compared():
    a, b = record(seed=0), record(seed=1, rounds=1)
    b["versions"] = {"torch": "9.9"}
    b["routes"][1], b["routes"][0] = b["routes"][0], b["routes"][1]
    versions, order, length = find_differences("tent", {"a": a, "b": b})
    assert versions == "tent: different versions in a and b (torch: 2.0 and 9.9)"
    assert "different stream order in a and b (image 1: fog fog0.png and fog fog1.png" in order
    assert length == "tent: runs of [2, 4] visits; only the common ones are shown"
