"""The demonstration: what it runs, and what it says of it."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from mmengine.config import Config

from mmseg_reservoir.style.vgg import SHIPPED
from tools import demo


def results_without_images(command):
    """Stands in for a run."""
    work_dir = next(Path(c.partition("=")[2]) for c in command if "--work-dir" in c)
    (work_dir / "results.json").write_text(json.dumps({"routes": []}))
    return subprocess.CompletedProcess(command, 0)


def test_it_says_which_filters_styles_come_from(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", lambda command, **_: results_without_images(command))
    monkeypatch.setattr(demo, "write_dataset", lambda root: Written(root, reused=True))
    for name in ("plot_comparison", "comparison_table", "routing_table", "write_report"):
        monkeypatch.setattr(demo, name, lambda *_: "")
    demo.main([f"--out={tmp_path}"])
    assert f"Style: by the shipped front of an ImageNet-trained VGG-19, {SHIPPED}\n" in (
        capsys.readouterr().out
    )


class Written(NamedTuple):
    root: Path
    reused: bool


@pytest.mark.parametrize("name", demo.RUNS)
def test_configs_choose_the_style_weights_themselves(tmp_path, monkeypatch, name):
    commands = []

    def run(command, **_):
        commands.append(command)
        return results_without_images(command)

    monkeypatch.setattr(subprocess, "run", run)
    config = demo.RUNS[name]
    demo.run(name, config, tmp_path, rounds=1, seed=0)
    assert not any("reservoir.style" in part for part in commands[0])
    reservoir = Config.fromfile(demo.CONFIGS / f"{config}.py").get("reservoir") or {}
    assert reservoir.get("style", {}).get("weights", "shipped") == "shipped"


@pytest.mark.parametrize("everything", [False, True])
def test_every_run_has_a_config(everything):
    runs = demo.chosen_runs(everything, analysis=True)
    assert len(runs) == (17 if everything else 6)
    assert all((demo.CONFIGS / f"{config}.py").is_file() for config in runs.values())
    assert demo.RUNS.items() <= runs.items()
    assert demo.ANALYSIS.items() <= runs.items()
    assert demo.chosen_runs(everything, analysis=False).keys() == runs.keys() - demo.ANALYSIS.keys()


def test_tent_runs_by_itself_with_a_published_and_with_the_robust_reservoir():
    runs = demo.chosen_runs(everything=False, analysis=False)
    configs = {name: Config.fromfile(demo.CONFIGS / f"{c}.py") for name, c in runs.items()}
    assert {name: (cfg.method.type, cfg.get("reservoir")) for name, cfg in configs.items()} == {
        "Source": ("source", None),
        "TENT": ("tent", None),
        "TENT + ReservoirTTA": ("tent", {"preset": "stream"}),
        "TENT + robust": ("tent", {"preset": "robust"}),
    }


@pytest.mark.parametrize("name", demo.RUNS)
def test_panels_of_a_reservoir_stand_beside_those_of_tent(tmp_path, monkeypatch, name):
    commands = []

    def run(command, **_):
        commands.append(command)
        return results_without_images(command)

    monkeypatch.setattr(subprocess, "run", run)
    demo.run(name, demo.RUNS[name], tmp_path, rounds=1, seed=0)
    beside = f"--baseline={tmp_path / 'panels' / 'segformer-tiny_tent'}"
    assert (beside in commands[0]) == (" + " in name)
