import json
import logging
from pathlib import Path

import pytest
from mmengine.config import Config
from run_records import record, write
from stream_run import TINY, data_options

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.runner import (
    FILE_ONLY,
    LR_GRID,
    _is_for_terminals,
    log_to_file,
    run_fair,
    with_learning_rate,
)

TENT = TINY / "segformer-tiny_tent.py"


@pytest.fixture
def tent(tmp_path):
    cfg = Config.fromfile(TENT)
    cfg.work_dir = str(tmp_path / "w")
    return cfg


def test_default_grid_holds_the_papers_rates():
    assert {7.5e-6, 6e-7} <= set(LR_GRID)


def test_only_rate_and_folders_change(tent):
    tent.custom_hooks.append(dict(type="PseudoLabelHook", show_dir="panels"))
    before = tent.to_dict()
    one = with_learning_rate(tent, 1e-6)
    assert tent.to_dict() == before
    assert one.method.optimizer == dict(type="Adam", lr=1e-6)
    assert one.work_dir == f"{tent.work_dir}/lr_1e-06"
    assert one.custom_hooks[-1].show_dir == "panels/lr_1e-06"
    assert one.filename == tent.filename
    changed = {key for key in one.to_dict() if one.to_dict()[key] != before.get(key)}
    assert changed == {"method", "work_dir", "custom_hooks", "experiment_name"}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([], "differ"),
        ([1e-5, 1e-5], "differ"),
        ([0.0], "positive"),
        ([-1e-5], "positive"),
        ([float("nan")], "positive"),
    ],
)
def test_wrong_grids(tent, grid, message):
    with pytest.raises(ReservoirError, match=message):
        run_fair(tent, grid)


def test_a_method_without_learning_rate_and_a_config_without_results(tent):
    source = Config.fromfile(TINY / "segformer-tiny_source.py")
    source.work_dir = tent.work_dir
    with pytest.raises(ReservoirError, match=r"'source' has no method.optimizer.lr"):
        run_fair(source)
    tent.custom_hooks = [hook for hook in tent.custom_hooks if hook.type != "ResultsHook"]
    with pytest.raises(ReservoirError, match=r"reads results.json"):
        run_fair(tent)


def test_runs_the_whole_grid_and_keeps_everything(minicity, tmp_path, capfd):
    command = [TENT, "--random-weights", f"--work-dir={tmp_path}", "--protocol=fair"]
    command += ["--lr-grid", "1e-6", "1e-2", "--cfg-options", *data_options(minicity)]
    assert test_tta.main([str(word) for word in command]) == 0
    printed = capfd.readouterr().out
    assert "mIoU by learning rate and visit" in printed
    assert "mIoU was not used" in printed

    fair = json.loads((tmp_path / "fair.json").read_text())
    assert fair["complete"] is True
    assert fair["grid"] == [1e-6, 1e-2]
    runs = []
    for lr, row in zip(("1e-06", "0.01"), fair["runs"], strict=True):
        results = json.loads((tmp_path / f"lr_{lr}" / "results.json").read_text())
        assert results["complete"] is True
        assert results["config"]["method"]["optimizer"]["lr"] == float(lr) == row["lr"]
        assert row["mIoU"]["fog"] == [v["mIoU"] for v in results["visits"] if v["domain"] == "fog"]
        runs.append(results)
        assert list((tmp_path / f"lr_{lr}").glob("*/*.log")), "a log of its own"
    slow, fast = ([route["entropy"] for route in results["routes"]] for results in runs)
    assert slow[0] == fast[0]  # the same weights, predicted before the first update
    assert fast[-1] < slow[-1]  # TENT with larger steps becomes surer
    best = max(fair["runs"], key=lambda row: row["information"])
    assert fair["chosen"] == best["lr"]


def test_an_interrupted_grid_keeps_its_finished_rates(tent, monkeypatch):
    class Fake:
        """Stands for mmengine's Runner: writes a record, and is interrupted at the second rate."""

        def __init__(self, cfg):
            self.cfg = cfg

        @classmethod
        def from_cfg(cls, cfg):
            return cls(cfg)

        def test(self):
            if self.cfg.method.optimizer.lr == 1e-4:
                raise KeyboardInterrupt
            write(Path(self.cfg.work_dir), record(lr=self.cfg.method.optimizer.lr))

    monkeypatch.setattr("mmseg_reservoir.seg.runner.QuietRunner", Fake)
    with pytest.raises(KeyboardInterrupt):
        run_fair(tent, [1e-5, 1e-4])
    fair = json.loads(Path(tent.work_dir, "fair.json").read_text())
    assert fair["complete"] is False
    assert [row["lr"] for row in fair["runs"]] == [1e-5]


@pytest.fixture
def logger(tmp_path):
    logger = logging.Logger("quiet", logging.INFO)
    logger.addHandler(logging.FileHandler(tmp_path / "run.log"))
    logger.addHandler(logging.StreamHandler())
    logger.handlers[1].addFilter(_is_for_terminals)
    return logger


def test_pages_are_for_the_file(logger, tmp_path, capsys):
    logger.handlers[1].setStream(__import__("sys").stderr)
    logger.info("a line")
    logger.info("many lines", extra=FILE_ONLY)
    log_to_file(logger, "the bar shows this")
    assert capsys.readouterr().err == "a line\n"
    assert (tmp_path / "run.log").read_text() == "a line\nmany lines\nthe bar shows this\n"


@pytest.mark.parametrize(
    ("module", "function", "shown"),
    [
        ("runner", "_log_env", False),
        ("runner", "__init__", False),
        ("runner", "wrap_model", False),
        ("runner", "load_checkpoint", True),
        ("loop", "__init__", True),
    ],
)
def test_mmengine_begins_with_pages(module, function, shown):
    record = logging.LogRecord("x", logging.INFO, f"{module}.py", 1, "text", (), None, function)
    assert _is_for_terminals(record) == shown
