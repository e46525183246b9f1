import json

import pytest
from run_records import record, write

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.reader import find_differences, group_key, group_names, read_runs


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
    with pytest.raises(ReservoirError, match=r"results.json is not the JSON of a run"):
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


def resolved(seed, steps=1, **changes):
    """A record with the options that were in force; the default of steps is 1."""
    options = {
        "seed": seed,
        "method": {"type": "tent", "steps": steps, "optimizer": {"type": "Adam", "lr": 1e-4}},
        "reservoir": {"memory": {"seed": seed}},
    }
    return record(seed=seed, options=options, **changes)


def test_key_looks_at_the_options_in_force():
    key = group_key(resolved(seed=0))
    assert group_key(resolved(seed=1)) == key
    explicit = resolved(seed=1)
    explicit["config"]["method"]["steps"] = 1
    explicit["config"]["reservoir"] = "published"
    assert group_key(explicit) == key
    assert group_key(resolved(seed=0, steps=2)) != key  # another default, say of another version
    other_data = resolved(seed=0)
    other_data["config"]["data_root"] = "elsewhere"  # the options do not know of it
    assert group_key(other_data) != key


def test_a_seed_that_was_written_is_an_option():
    records = [resolved(seed=0) for _ in range(2)]
    for seed, results in zip((7, 8), records, strict=True):
        results["config"]["reservoir"] = {"memory": {"seed": seed}}
        results["options"]["reservoir"]["memory"]["seed"] = seed
    assert group_key(records[0]) != group_key(records[1])


def test_names_tell_what_was_written_or_else_what_was_in_force():
    a, b = resolved(seed=0), resolved(seed=0, steps=2)
    assert group_names([{"a": a}, {"b": b}]) == ["tent (method.steps=1)", "tent (method.steps=2)"]
    a["config"]["reservoir"] = {"preset": "paper"}
    assert group_names([{"a": a}, {"b": b}]) == [
        "tent (reservoir.preset=paper)",
        "tent (reservoir.preset=None)",
    ]


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


def test_rows_of_one_config_are_told_apart_by_their_names():
    config = "configs/cls/cifar10c_wrn28.py"
    groups = [{row: record(config_file=config, row=row)} for row in ("tent", "eata_reservoir")]
    groups.append({"b": record(lr=1e-5, config_file=config, row="tent")})
    assert group_names(groups) == [
        "cifar10c_wrn28_tent (method.optimizer.lr=0.0001)",
        "cifar10c_wrn28_eata_reservoir",
        "cifar10c_wrn28_tent (method.optimizer.lr=1e-05)",
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


def test_images_that_the_seed_shuffles_may_differ_in_order_but_domains_may_not():
    a, b = record(seed=0), record(seed=1)
    for results in (a, b):
        results["config"]["test_cfg"] = {"shuffle": "visit"}
    b["routes"][1], b["routes"][0] = b["routes"][0], b["routes"][1]
    assert find_differences("tent", {"a": a, "b": b}) == []
    b["routes"][3], b["routes"][0] = b["routes"][0], b["routes"][3]
    (warning,) = find_differences("tent", {"a": a, "b": b})
    assert "different stream order in a and b (image 1: fog and night" in warning


def test_versions_order_and_length_are_compared():
    a, b = record(seed=0), record(seed=1, rounds=1)
    b["versions"] = {"torch": "9.9"}
    b["routes"][1], b["routes"][0] = b["routes"][0], b["routes"][1]
    versions, order, length = find_differences("tent", {"a": a, "b": b})
    assert versions == "tent: different versions in a and b (torch: 2.0 and 9.9)"
    assert "different stream order in a and b (image 1: fog fog0.png and fog fog1.png" in order
    assert length == "tent: runs of [2, 4] visits; only the common ones are shown"
