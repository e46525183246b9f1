"""The command line that warms BECoTTA up."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mmseg_reservoir.becotta.store import read_meta
from mmseg_reservoir.cli.warmup import load_config, main
from mmseg_reservoir.params.selections import becotta_params

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs/minicity/segformer-tiny_becotta_warmup.py"


def fail(capfd, *command) -> str:
    """Run a command that must end with code 2; returns the one line it says."""
    assert main([str(word) for word in command]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]


def options(minicity):
    return [
        "train_cfg.max_iters=2",
        "train_dataloader.batch_size=3",
        f"train_dataloader.dataset.data_root={minicity}",
        f"val_dataloader.dataset.data_root={minicity}",
        "warmup.domains=[clear,fog,night]",
    ]


def test_trains_and_writes_a_file_that_injects(minicity, tiny_model, tmp_path):
    target = tmp_path / "out" / "b.safetensors"
    command = [CONFIG, f"--work-dir={tmp_path}", f"--export={target}", "--cfg-options"]
    command += [*options(minicity), "warmup.variant=S"]
    assert main([str(word) for word in command]) == 0
    meta = read_meta(target)
    assert meta["variant"]["ranks"] == [0, 0, 0, 6]
    assert meta["domains"] == ["clear", "fog", "night"]
    about = meta["about"]
    assert about["before"]["clear"]["mIoU"] > 50  # the checkpoint was loaded
    assert about["after"]["clear"]["mIoU"] > 50  # and the training has kept it
    assert about["after"].keys() == about["before"].keys() == {"clear", "fog", "night"}
    assert about["after"] != about["before"]
    model = copy.deepcopy(tiny_model)
    selected = becotta_params(model, weights=target)
    assert any(p.any() for name, p in selected.items() if name.endswith("up_weight"))


def test_mistakes_are_explained(capfd, minicity, tmp_path):
    assert "no config file nowhere.py" in fail(capfd, "nowhere.py")
    train = CONFIG.with_name("segformer-tiny_train.py")
    assert "no checkpoint" in fail(capfd, train)
    assert "has no 'warmup'" in fail(capfd, train, "some.safetensors")
    assert "no checkpoint file none.pth" in fail(capfd, CONFIG, "none.pth")
    base = [CONFIG, f"--work-dir={tmp_path}", "--cfg-options", *options(minicity)]
    assert "unknown variant of BECoTTA 'Q'" in fail(capfd, *base, "warmup.variant=Q")
    assert "unknown synthetic style 'smog'" in fail(capfd, *base, "warmup.domains=[smog]")
    assert "warmup has no option 'varient'" in fail(capfd, *base, "warmup.varient=M")


def test_a_bundled_config_is_found_by_its_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = load_config(main.parse(["minicity/segformer-tiny_becotta_warmup.py"]))
    assert Path(cfg.filename) == CONFIG


def test_the_shipped_weights_are_those_of_the_config():
    cfg = load_config(main.parse([str(CONFIG)]))
    path = ROOT / "checkpoints/becotta_tiny_minicity.safetensors"
    meta = read_meta(path)
    assert path.stat().st_size < 2e6
    assert meta["domains"] == cfg.warmup.domains
    assert meta["dims"] == [24, 48, 96, 144]
    assert meta["about"]["config"] == CONFIG.name
    before, after = meta["about"]["before"], meta["about"]["after"]
    assert after["clear"]["mIoU"] > before["clear"]["mIoU"] - 1.0
    adverse = ("fog", "night", "rain", "snow")
    assert all(after[name]["mIoU"] > before[name]["mIoU"] for name in adverse)
    assert all(torch.isfinite(t.float()).all() for t in load_file(path).values())


@pytest.mark.slow
def test_two_equal_runs_give_equal_weights(minicity, tmp_path):
    files = [tmp_path / f"{i}.safetensors" for i in range(2)]
    for file in files:
        command = [CONFIG, f"--work-dir={tmp_path}", f"--export={file}", "--cfg-options"]
        assert main([str(word) for word in [*command, *options(minicity)]]) == 0
    one, other = map(load_file, files)
    assert all(torch.equal(value, other[name]) for name, value in one.items())
