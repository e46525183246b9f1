"""The demonstration: what it runs, side by side, and what it shows at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import Popen

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from panel_files import save_panels
from run_records import rich_record

from mmseg_reservoir.cli import demo
from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.minicity import Written, frame_paths

SUCCEEDS = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('{}')"


def test_the_runs_are_the_product():
    configs = {n: Config.fromfile(demo.CONFIGS / f"{c}.py") for n, c in demo.RUNS.items()}
    presets = {n: (cfg.get("reservoir") or {}).get("preset") for n, cfg in configs.items()}
    assert {name: (cfg.method.type, presets[name]) for name, cfg in configs.items()} == {
        "Source": ("source", None),
        "TENT": ("tent", None),
        "TENT + ReservoirTTA": ("tent", "stream"),
        "TENT + robust": ("tent", "robust"),
        "align": ("align", "robust"),
    }
    for cfg in configs.values():  # nothing is downloaded
        style = (cfg.get("reservoir") or {}).get("style", {})
        assert style.get("weights", "shipped") == "shipped"
    assert set(demo.PICTURED) <= set(demo.RUNS)


@pytest.mark.parametrize("everything", [False, True])
def test_every_run_has_a_config(everything):
    runs = demo.chosen_runs(everything, analysis=True)
    assert len(runs) == (18 if everything else 7)
    assert all((demo.CONFIGS / f"{config}.py").is_file() for config in runs.values())
    assert demo.RUNS.items() <= runs.items()
    assert demo.ANALYSIS.items() <= runs.items()
    assert demo.chosen_runs(everything, analysis=False).keys() == runs.keys() - demo.ANALYSIS.keys()


def test_commands_are_valid(tmp_path):
    args = test_tta.main.parse(demo.command("segformer-tiny_align", tmp_path, 3, 1)[4:])
    cfg, _ = test_tta.load_config(args)
    assert (cfg.test_cfg.rounds, cfg.randomness.seed) == (3, 1)
    hooks = {hook["type"]: hook for hook in cfg.custom_hooks}
    file = demo.progress_file(tmp_path, "segformer-tiny_align")
    assert hooks["ProgressHook"]["file"] == str(file)
    assert hooks["PseudoLabelHook"]["frames"] == demo.SHOWN_FRAMES


def fake_commands(monkeypatch, script):
    def command(config, out, rounds, seed):
        return [sys.executable, "-c", script, str(out / config / "results.json")]

    monkeypatch.setattr(demo, "command", command)
    monkeypatch.setattr(demo, "_POLL_SECONDS", 0.01)


def test_results_are_in_the_order_of_the_table(tmp_path, monkeypatch, capsys):
    fake_commands(monkeypatch, SUCCEEDS)
    runs = demo.run_all({"a": "x", "b": "y", "c": "z"}, tmp_path, 1, 0, frames=4, workers=2)
    assert list(runs) == ["a", "b", "c"]
    out = capsys.readouterr().out
    assert out.index("c: 4/4 frames, finished") < out.index("a: 4/4 frames, finished")


def test_a_run_that_fails_ends_the_others(tmp_path, monkeypatch, capsys):
    fake_commands(
        monkeypatch,
        "import sys, time\nif 'slow' in sys.argv[1]: time.sleep(60)\nsys.exit('no such file')",
    )
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **kw: started.append(popen(*a, **kw)) or started[-1]
    )
    with pytest.raises(SystemExit, match="error: fast ended with code 1"):
        demo.run_all({"fast": "fast", "slow": "slow"}, tmp_path, 1, 0, frames=4, workers=2)
    assert "no such file" in capsys.readouterr().err
    assert [process.poll() is not None for process in started] == [True, True]


def test_sigterm_ends_the_runs_too(tmp_path, monkeypatch):
    fake_commands(monkeypatch, "import time; time.sleep(60)")
    runs = []

    def start(*args, **kwargs):
        runs.append(Popen(*args, **kwargs))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return runs[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    arguments = ({"a": "x"}, tmp_path, 1, 0, 4, 1)
    assert run_cli(lambda: demo.run_all(*arguments)) == 143
    assert [run.poll() for run in runs] == [-signal.SIGTERM]


def test_the_truth_of_an_image_is_beside_it(tmp_path):
    image, truth = frame_paths(tmp_path, "fog", "train", 3)
    assert demo.truth_of(image) == truth


def test_it_ends_with_three_files_to_look_at(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    counts = {"clear": {"train": 8}, "fog": {"train": 3}, "night": {"train": 3}}
    written = Written(tmp_path, counts, "", reused=True, seconds=0.0)
    monkeypatch.setattr("mmseg_reservoir.minicity.write_dataset", lambda *_, **__: written)

    def run_all(chosen, out, rounds, seed, frames, workers):
        assert frames == 6 * rounds
        for config in chosen.values():
            folder = out / config
            folder.mkdir(parents=True)
            results = rich_record()
            save_panels(results, folder)
            (folder / "results.json").write_text(json.dumps(results))
        return {
            name: json.loads((out / c / "results.json").read_text()) for name, c in chosen.items()
        }

    monkeypatch.setattr(demo, "run_all", run_all)
    truth = tmp_path / "truth.png"
    cv2.imwrite(str(truth), np.zeros((8, 16), np.uint8))
    monkeypatch.setattr(demo, "truth_of", lambda image: truth)
    assert demo.main([f"--out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "ms per image" in printed
    files = re.findall(r"^\d\. (\S+):", printed, flags=re.MULTILINE)
    assert [Path(file).name for file in files] == ["frames.png", "comparison.png", "report.html"]
    assert all(Path(file).stat().st_size > 5000 for file in files)
    assert "visit" in (out / "tables.txt").read_text()
