"""The demonstration of classifiers: that it has every method, and what it prints."""

import multiprocessing
import os
import select
import signal
import threading
import time

import pytest
from mmengine.config import Config

import mmseg_reservoir.methods  # noqa: F401 (registers them)
from mmseg_reservoir.cli import demo_cls
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.cls import run as run_module
from mmseg_reservoir.cls.rows import choose_row
from mmseg_reservoir.registry import table
from mmseg_reservoir.report.charts import PRESET_SUFFIXES


def options_of(run: demo_cls.Run) -> dict:
    config = Config.fromfile(demo_cls.CONFIGS / f"{run.table}.py").to_dict()
    return choose_row(config, run.method, run.preset or False)


def test_every_run_has_a_row_and_every_row_a_run():
    runs = demo_cls.chosen_runs()
    tables = {path.stem: Config.fromfile(path) for path in demo_cls.CONFIGS.glob("digits_*.py")}
    rows = {(table, row) for table, config in tables.items() for row in config.rows}
    assert {(run.table, run.method) for run in runs.values()} == rows
    assert len(set(runs.values())) == len(runs) == 37
    assert PRESET_SUFFIXES == {" + ReservoirTTA": "published", " + robust": "robust"}
    for ending, preset in PRESET_SUFFIXES.items():
        plug_ins = {name: run for name, run in runs.items() if name.endswith(ending)}
        assert len(plug_ins) == 9
        for name, run in plug_ins.items():
            assert run == runs[name.removesuffix(ending)]._replace(preset=preset)
            assert options_of(run)["reservoir"]["preset"] == preset
    assert sum(run.preset is None for run in runs.values()) == 17
    aligned = {name: run.preset for name, run in runs.items() if run.method == "align"}
    assert aligned == {"ConvNet: align": "robust", "ViT: align": "robust"}
    only = demo_cls.chosen_runs(["tent"])
    assert list(only) == [
        "ConvNet: TENT",
        "ConvNet: TENT + ReservoirTTA",
        "ConvNet: TENT + robust",
        "ViT: TENT",
        "ViT: TENT + ReservoirTTA",
        "ViT: TENT + robust",
    ]


def test_every_run_of_a_method_has_a_folder_and_a_row_of_its_own(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(run_module, "run", lambda _, folder, **kw: ran.append((folder, kw["row"])))
    for run in demo_cls.chosen_runs(["eata"]).values():
        demo_cls.run_row(run, tmp_path, rounds=1, seed=0)
    assert ran == [
        (tmp_path / f"digits_{net}_{row}", row)
        for net in ("convnet", "vit")
        for row in ("eata", "eata_reservoir", "eata_robust")
    ]


def test_every_method_for_images_takes_part():
    used = {options_of(run)["method"]["type"] for run in demo_cls.chosen_runs().values()}
    ours = {
        n: c
        for n, c in table("method").items()
        if c.__module__.startswith("mmseg_reservoir.methods")
    }
    assert used == {name for name, cls in ours.items() if "images" in cls.supports}


def test_the_configs_use_the_shipped_style_filters():
    for run in demo_cls.chosen_runs().values():
        reservoir = options_of(run).get("reservoir") or {}
        assert reservoir.get("style", {}).get("weights", "shipped") == "shipped"


def test_an_unknown_method_is_an_error_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_cls, "clean_errors", lambda: pytest.fail("it ran"))
    assert demo_cls.main(["--only", "tent", "nonsense", f"--out={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "error: unknown method for --only 'nonsense'; valid: align, cola, cotta"
    )
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_it_shows_a_collapse_and_what_the_reservoir_does_about_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert demo_cls.main(["--only", "source", "tent", f"--out={tmp_path / 'out'}"]) == 0
    out = capsys.readouterr().out
    assert "ConvNet: 0.5 % error on clean images" in out
    assert "Style: by the shipped front of an ImageNet-trained VGG-19" in out
    assert (tmp_path / "out" / "errors.png").stat().st_size > 10_000
    table = (tmp_path / "out" / "table.txt").read_text()
    assert table in out
    rows = [[c.strip() for c in line.split("│")[1:-1]] for line in table.splitlines()]
    rows = {row[0]: row for row in rows if row}
    for net in ("ConvNet", "ViT"):
        plain = rows[f"{net}: TENT"]
        assert plain[7] == "collapses"
        for ending in PRESET_SUFFIXES:
            plug_in = rows[f"{net}: TENT{ending}"]
            assert float(plug_in[5]) < float(plain[5]) - 5  # at visit 20
            assert int(plug_in[8]) >= 5  # experts
            assert float(plug_in[9]) > 0.8  # purity
    assert rows["ConvNet: Source"][8] == "1"
    assert rows["ConvNet: Source"][9] == "-"


def test_sigterm_does_not_wait_for_the_rows(tmp_path, monkeypatch):
    # What takes four arguments and 60 seconds, and what a process that is spawned can import.
    monkeypatch.setattr(demo_cls, "run_row", select.select)
    rows = dict.fromkeys("abc", ())
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    start = time.monotonic()
    assert run_cli(lambda: demo_cls.run_all(rows, (), (), 60, 1)) == 143
    assert time.monotonic() - start < 30
    assert not multiprocessing.active_children()
