import json
from pathlib import Path

import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.fleet.sweep_runs import RunFailedError, make_runs

TENT = "minicity/segformer-tiny_tent.py"
DIGITS = "cls/digits_convnet.py"


def test_a_run_for_every_config_row_and_seed(tmp_path):
    runs = make_runs([TENT, DIGITS], [0, 1], tmp_path, ["tent", "eata"], ["--cfg-options", "a=1"])
    assert [Path(run.work_dir).relative_to(tmp_path).as_posix() for run in runs] == [
        "minicity/segformer-tiny_tent/seed0",
        "minicity/segformer-tiny_tent/seed1",
        *(f"cls/digits_convnet_{m}/seed{s}" for m in ("tent", "eata") for s in (0, 1)),
    ]
    assert [run.verb for run in runs] == ["test"] * 2 + ["classify"] * 4
    assert runs[1].words == ("--seed=1", "--cfg-options", "a=1")
    assert runs[-1].words == ("--method=eata", "--seed=1", "--cfg-options", "a=1")


def test_mistakes(tmp_path):
    with pytest.raises(ReservoirError, match="is a table: choose rows of it, --method, of source"):
        make_runs([DIGITS], [0], tmp_path)
    with pytest.raises(ReservoirError, match="two runs would share a folder"):
        make_runs([TENT, TENT], [0], tmp_path)
    with pytest.raises(ReservoirError, match="no config file"):
        make_runs(["nosuch.py"], [0], tmp_path)


def test_complete_runs_are_known_and_those_of_other_options_refused(tmp_path):
    (run,) = make_runs([TENT], [0], tmp_path)
    assert not run.is_complete()
    folder = Path(run.work_dir)
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"complete": False}))
    assert not run.is_complete()
    (folder / "results.json").write_text(json.dumps({"complete": True}))
    assert run.is_complete()
    with pytest.raises(RunFailedError, match="error: "):
        run.run()  # which has no data here
    (other,) = make_runs([TENT], [0], tmp_path, words=["--cfg-options", "test_cfg.rounds=2"])
    with pytest.raises(ReservoirError, match="a run with other options"):
        other.is_complete()
