"""The demonstration: which style weights it takes, and what it says of them."""

import json
import subprocess
from pathlib import Path

import pytest
from mmengine.config import Config

from mmseg_reservoir.core.style import StyleEncoder
from mmseg_reservoir.style_cache import cached_weights, front, store
from tools import demo


def test_says_which_weights_it_uses(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo.describe_style().startswith("seeded random filters")
    tensors = front(StyleEncoder("seeded").features.state_dict(), "a test")
    path = store(tensors, cached_weights(), "some VGG-19")
    assert demo.describe_style() == f"some VGG-19, {path}"


@pytest.mark.parametrize("name", demo.RUNS)
def test_configs_that_look_at_styles_choose_the_weights_themselves(tmp_path, monkeypatch, name):
    commands = []

    def run(command, **_):
        commands.append(command)
        work_dir = next(Path(c.partition("=")[2]) for c in command if "--work-dir" in c)
        (work_dir / "results.json").write_text(json.dumps({"routes": []}))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    config = demo.RUNS[name]
    demo.run(name, config, tmp_path, rounds=1, seed=0)
    has_styles = Config.fromfile(demo.CONFIGS / f"{config}.py").get("reservoir") is not None
    assert ("reservoir.style.weights=auto" in commands[0]) == has_styles


@pytest.mark.parametrize("everything", [False, True])
def test_every_run_has_a_config(everything):
    runs = demo.chosen_runs(everything, analysis=True)
    assert len(runs) == (10 if everything else 5)
    assert all((demo.CONFIGS / f"{config}.py").is_file() for config in runs.values())
    assert demo.RUNS.items() <= runs.items()
