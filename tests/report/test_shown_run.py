import pytest
import torch
from run_records import record, rich_record, write

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.shown_run import ShownRun, load_runs
from mmseg_reservoir.runs.style_sample import StyleSample


def test_runs_are_named_by_the_user_or_by_what_they_differ_in(tmp_path):
    write(tmp_path / "a", record())
    write(tmp_path / "b", record(lr=1e-3))
    write(tmp_path / "c", record(config_file="configs/x/eata.py"))
    runs = load_runs([f"Mine={tmp_path / 'a'}", str(tmp_path / "b"), str(tmp_path / "c")])
    assert [run.name for run in runs] == ["Mine", "tent (method.optimizer.lr=0.001)", "eata"]
    assert runs[0].results["seed"] == 0
    assert runs[0].styles is None


def test_styles_of_routes_that_are_not_there_yet_are_left_out(tmp_path):
    write(tmp_path / "a", record())  # 12 routes
    sample = StyleSample()
    for route in (0, 11, 12):
        sample.add(route, torch.ones(2))
    sample.write(tmp_path / "a")
    (run,) = load_runs([str(tmp_path / "a")])
    assert run.styles.routes.tolist() == [0, 11]


def test_seeds_tell_runs_apart_that_nothing_else_does(tmp_path):
    for seed in (0, 1):
        write(tmp_path / str(seed), record(seed=seed))
    assert [run.name for run in load_runs([str(tmp_path)])] == ["tent (seed 0)", "tent (seed 1)"]


def test_what_cannot_be_one_page_is_told(tmp_path):
    write(tmp_path / "a", record())
    write(tmp_path / "b", record(visits=[{"round": 1, "domain": "fog", "error": 3.0}]))
    with pytest.raises(ReservoirError, match="make one page for each task"):
        load_runs([str(tmp_path)])
    with pytest.raises(ReservoirError, match="holds 2 runs, which cannot all be called 'x'"):
        load_runs([f"x={tmp_path}"])
    write(tmp_path / "c", record(visits=[]))
    with pytest.raises(ReservoirError, match="has no visit yet"):
        load_runs([str(tmp_path / "c")])
    with pytest.raises(ReservoirError, match=r"no results\.json"):
        load_runs([f"x={tmp_path / 'nothing'}"])


def test_the_base_is_the_same_method_without_a_reservoir():
    tent, other = record(method="Tent"), record(method="Eata")
    runs = [ShownRun("Eata", other), ShownRun("Tent", tent), ShownRun("R", rich_record())]
    assert runs[2].base(runs) is runs[1]
    assert runs[1].base(runs) is None
    assert runs[2].base(runs[:1]) is None
    tent["visits"] = tent["visits"][:1]  # another stream
    assert runs[2].base(runs) is None


def test_panels_are_where_the_run_put_them(tmp_path):
    results = record()
    hook = {"type": "PseudoLabelHook", "show_dir": str(tmp_path / "panels")}
    results["config"]["custom_hooks"].append(hook)
    assert ShownRun("a", results).panels is None  # gone
    (tmp_path / "panels").mkdir()
    assert ShownRun("a", results).panels == tmp_path / "panels"
