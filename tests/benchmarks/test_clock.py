import json

import pytest

from benchmarks import clock
from benchmarks.minicity import CONFIGS
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.summary import Statistic

COSTS = {"predict": 0.02, "adapt": 0.06}


def results(*scores, costs=COSTS):
    visits = [dict(mIoU=score, n_images=4, missed=2, adapted=1) for score in scores]
    return {"clock": {"step_seconds": costs}, "visits": visits, "complete": True}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The runs that are asked for; each writes its results."""
    asked = []

    def run(config, seed, folder, rounds, threads, name, options):
        asked.append((seed, name))
        file = folder / f"seed{seed}" / name / "results.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results(30.0 + seed, 40.0)))

    monkeypatch.setattr(clock, "run", run)
    monkeypatch.setattr(clock, "write_draws", lambda *args: None)
    return asked


def test_every_row_has_a_config():
    assert len(clock.ROWS) == 14
    assert all((CONFIGS / f"{config}.py").is_file() for config, _ in clock.ROWS.values())


def test_costs_are_measured_once_per_row(runs, tmp_path):
    command = ["--rows", "source", "tent", "--rates", "5", "20", "--seeds", "1", "2"]
    command += ["--out", str(tmp_path)]
    assert clock.main(command) == 0
    assert runs[:2] == [(1, "costs/source"), (1, "costs/tent")]
    assert len(runs) == 2 + 2 * 2 * 2
    assert json.loads((tmp_path / "costs.json").read_text()) == {"source": COSTS, "tent": COSTS}
    table = (tmp_path / "summary_answer.md").read_text()
    assert "35.75 ± 0.35" in table
    assert "50%" in table
    assert (tmp_path / "clock_answer.png").is_file()
    runs.clear()
    assert clock.main(command) == 0
    assert not any(name.startswith("costs") for _, name in runs)


def test_options_of_a_run_hold_the_stored_costs():
    assert clock.options_of(10.0, "drop", COSTS) == [
        "test_cfg.frame_rate=10.0",
        "test_cfg.missed=drop",
        "test_cfg.step_seconds.predict=0.02",
        "test_cfg.step_seconds.adapt=0.06",
    ]


def test_a_cell_is_of_the_whole_stream():
    found = clock.summarize([results(30.0, 32.0), results(40.0, 42.0)], COSTS)
    assert found == (Statistic.of([31.0, 41.0]), 0.5, 0.25)


def test_runs_with_other_costs_are_refused():
    with pytest.raises(ReservoirError, match="choose another --out"):
        clock.summarize([results(30.0, costs={"predict": 1.0, "adapt": 2.0})], COSTS)
