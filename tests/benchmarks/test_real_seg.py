import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from stream_run import CONFIGS

from benchmarks import common, real_seg
from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.config.presets import PRESETS, with_preset

SMALL = ["--methods", "tent", "--rounds=1", "--split=train", "--size", "64", "32"]


@pytest.fixture
def command(minicity, tiny_model, tmp_path):
    """MiniCity in the place of ACDC, its clear frames in that of Cityscapes."""
    clear = tmp_path / "city" / "leftImg8bit" / "train" / "town"
    clear.mkdir(parents=True)
    for i, image in enumerate(sorted((minicity / "rgb_anon/clear/train").rglob("*.png"))):
        shutil.copy(image, clear / f"town_{i}_leftImg8bit.png")
    weights = tmp_path / "tiny.pth"
    torch.save(tiny_model.state_dict(), weights)
    config = tmp_path / "own.py"
    config.write_text(
        f"_base_ = {str(CONFIGS / '_base_/models/segformer_tiny.py')!r}\n"
        "custom_imports = dict(imports=['mmseg'])\n"
    )
    words = [f"--config={config}", f"--weights={weights}", f"--acdc={minicity}"]
    words += [f"--cityscapes={tmp_path / 'city'}", f"--out={tmp_path / 'out'}", *SMALL]
    return [*words, "--jobs=1", "--lr=1e-3"]


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Run in this process, which has imported mmseg already; returns the configs of the runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    style = {**with_preset("stream")["style"], "weights": "seeded"}
    monkeypatch.setitem(PRESETS, "small", {**with_preset("stream"), "style": style})
    seen = []

    def here(words, **options):
        seen.append(words[2])
        return SimpleNamespace(returncode=test_tta.main(words[2:]))

    monkeypatch.setattr(common, "subprocess", SimpleNamespace(run=here, STDOUT=None))
    return seen


def read(out, name, seed):
    return json.loads((out / name / f"seed{seed}" / "results.json").read_text())


@pytest.mark.slow
def test_the_command_line_runs_what_is_missing(command, runs, tmp_path, capsys, monkeypatch):
    cells = ["--variants", "source", "small", "--seeds", "0", "1"]
    assert real_seg.main([*command, *cells]) == 0
    assert len(runs) == 1 + 2
    out = tmp_path / "out"
    summary = (out / "summary.md").read_text()
    assert summary in capsys.readouterr().out
    source, small = read(out, "source", 0), [read(out, "tent_1_small", s) for s in (0, 1)]
    assert source["method"] == "Source"
    assert source["options"]["statistics"] == 0
    assert small[0]["options"]["statistics"] == 0.03
    assert small[0]["options"]["method"]["optimizer"]["lr"] == 1e-3
    orders = [[route["image"] for route in run["routes"]] for run in small]
    assert len(orders[0]) == 12
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert small[0]["reservoir"]
    assert not source["reservoir"]

    gains = [run["visits"][1]["mIoU"] - source["visits"][1]["mIoU"] for run in small]
    error = abs(gains[0] - gains[1]) / 2  # the deviation over the root of two seeds
    table = summary.split("## Difference to source, visit 1")[1].split("##")[0]
    assert f"{sum(gains) / 2:+.2f} ± {error:.2f}" in table
    assert "## Difference to base" not in summary

    runs.clear()
    assert real_seg.main([*command, *cells]) == 0
    assert not runs
    # Another preset of that name is another run, and one that fails costs no other.
    monkeypatch.setitem(PRESETS["small"], "k_max", 3)
    failing = lambda words, **options: SimpleNamespace(returncode=1)  # noqa: E731
    monkeypatch.setattr(common.subprocess, "run", failing)  # the fixture's, not Python's
    assert real_seg.main([*command, *cells]) == 1
    assert "tent_1_small, seed 1: failed" in capsys.readouterr().err


def test_labels_keep_their_size(command):
    args = real_seg.parse_args(command)
    config = real_seg.config_of(args, real_seg.paired.Cell("eata", 0.1, "base"), 3)
    steps = [step["type"] for step in config["test_dataloader"]["dataset"]["pipeline"]]
    assert steps.index("Resize") < steps.index("LoadAnnotations")
    assert config["method"]["optimizer"]["lr"] == pytest.approx(1e-4)
    assert config["custom_imports"]["imports"] == ["mmseg_reservoir.seg", "mmseg"]
    assert config["randomness"] == {"seed": 3}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--variants", "robst"], "unknown preset 'robst' (did you mean 'robust'?)"),
        (["--methods", "tant"], "unknown method 'tant' (did you mean 'tent'?)"),
        (["--acdc=nowhere"], "there is no folder nowhere/rgb_anon: check --acdc"),
        (["--cityscapes=nowhere"], "there is no folder nowhere/leftImg8bit/train"),
        (["--weights=nowhere"], "there is no file nowhere"),
        (["--statistics=runing"], "statistics cannot be 'runing' (did you mean 'running'?)"),
    ],
)
def test_mistakes_end_in_one_line(command, runs, capsys, option, message):
    assert real_seg.main([*command, *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not runs
