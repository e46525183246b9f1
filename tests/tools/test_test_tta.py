import shutil

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from stream_run import TINY, data_options, run, seeded_reservoir

from tools import test_tta


def fail(capfd, *command) -> str:
    """Run a command that must end with code 2; returns the one line it says."""
    assert test_tta.main([str(word) for word in command]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def tent(minicity, tmp_path):
    command = [TINY / "segformer-tiny_tent.py", "--random-weights", f"--work-dir={tmp_path / 'w'}"]
    return [*command, "--cfg-options", *data_options(minicity)]


@pytest.fixture
def reservoir(minicity, tmp_path):
    command = [TINY / "segformer-tiny_tent_reservoir.py", "--random-weights"]
    command += [f"--work-dir={tmp_path / 'w'}", "--cfg-options", *data_options(minicity)]
    return [*command, *seeded_reservoir(tmp_path / "cache")]


def test_no_config_no_checkpoint(capfd, tmp_path):
    assert "no config file nowhere.py" in fail(capfd, "nowhere.py")
    acdc = TINY.parent / "acdc" / "segformer-b5_tent.py"
    assert "no checkpoint: give one as the second argument" in fail(capfd, acdc)
    assert "no checkpoint file none.pth" in fail(capfd, acdc, "none.pth")
    line = fail(capfd, acdc, "--random-weights", f"--work-dir={tmp_path}")
    assert "no images *_rgb_anon.png below data/acdc/rgb_anon/fog/train" in line


def test_wrong_protocol_options(capfd, tent):
    line = fail(capfd, *tent[:3], "--lr-grid", "1e-5", *tent[3:])
    assert "--lr-grid belongs to --protocol fair" in line
    line = fail(capfd, *tent[:3], "--protocol=fair", "--lr-grid", "0", *tent[3:])
    assert "positive learning rates, got 0" in line
    source = [TINY / "segformer-tiny_source.py", *tent[1:3], "--protocol=fair", *tent[3:]]
    assert "run it with --protocol published" in fail(capfd, *source)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("method.type=tant", "unknown adaptation method 'tant' (did you mean 'tent'?)"),
        ("method.rate=1", "method has no option 'rate'"),
        ("methd.type=tent", "the config has no 'methd' (did you mean 'method'?)"),
        ("params.under=neck", "below 'neck'"),
        ("novalue", "--cfg-options takes key=value"),
    ],
)
def test_wrong_options(capfd, tent, option, message):
    assert message in fail(capfd, *tent, option)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("reservoir.k_max=0", "K_max >= 1 expert, got 0"),
        ("reservoir.memory.capacity=0", "M >= 1, got 0"),
        ("reservoir.router.quantile=0", "must lie in (0, 1], got 0"),
        ("reservoir.router.quantile=1.5", "must lie in (0, 1], got 1.5"),
        ("reservoir.kmax=4", "reservoir has no option 'kmax' (did you mean 'k_max'?)"),
        ("reservoir.router.type=styl", "unknown router 'styl'"),
        ("reservoir.router.tau=3", "reservoir.router has no option 'tau'"),
        ("reservoir.clustering.temperature=hot", "temperature must be"),
        ("reservoir.style.taps=[1]", "taps [1] must be convolutions"),
        ("reservoir.style.weights=none.pth", "no VGG-19 weights at none.pth"),
        ("reservoir.pipeline.init=best", "unknown initialisation of experts 'best'"),
        ("reservoir.calibration.file=none", "no calibration file at none"),
    ],
)
def test_wrong_reservoir_options(capfd, reservoir, tmp_path, option, message):
    assert message in fail(capfd, *reservoir, option)
    assert not (tmp_path / "w" / "results.json").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_damaged_data(capfd, minicity, tmp_path, workers):
    root = shutil.copytree(minicity, tmp_path / "data")
    command = [TINY / "segformer-tiny_source.py", "--random-weights", f"--work-dir={tmp_path}"]
    command += ["--cfg-options", *data_options(root), f"test_dataloader.num_workers={workers}"]
    label = min(root.glob("gt/night/train/*/*.png"))
    cv2.imwrite(str(label), np.zeros((10, 20), np.uint8))
    assert f"{label} is 10x20" in fail(capfd, *command)
    image = min(root.glob("rgb_anon/night/train/*/*.png"))
    image.write_bytes(image.read_bytes()[:50])
    line = fail(capfd, *command, "--overwrite")
    assert str(image) in line
    assert "damaged" in line


def test_checkpoint_of_another_architecture(capfd, minicity, tmp_path, tiny_model):
    state = dict(tiny_model.state_dict())
    state["backbone.layers.0.0.projection.weight"] = torch.zeros(64, 3, 7, 7)
    save_file(state, tmp_path / "other.safetensors")
    command = [TINY / "segformer-tiny_source.py", tmp_path / "other.safetensors"]
    options = [f"--work-dir={tmp_path}", "--cfg-options", *data_options(minicity)]
    line = fail(capfd, *command, *options)
    assert "0 missing and 1 of another shape" in line
    assert "backbone.layers.0.0.projection.weight" in line
    assert "--allow-mismatch" in line
    assert test_tta.main([str(w) for w in [*command, "--allow-mismatch", *options]]) == 0


def test_checkpoint_is_really_loaded(minicity, tmp_path, tiny_model):
    state = {name: value.clone() for name, value in tiny_model.state_dict().items()}
    state["decode_head.conv_seg.bias"][:] = torch.where(torch.arange(19) == 8, 1e4, 0.0)
    weights = tmp_path / "vegetation.safetensors"
    save_file(state, weights)
    results = run("segformer-tiny_source", minicity, tmp_path, flags=[weights])
    for visit in results["visits"]:  # everything is vegetation
        scores = visit["per_class"]
        assert scores["vegetation"] > 0
        assert all(not v for name, v in scores.items() if name != "vegetation")


def test_seed_goes_into_the_results(minicity, tmp_path):
    results = run("segformer-tiny_source", minicity, tmp_path, flags=["--seed=7"])
    assert results["seed"] == 7


@pytest.mark.parametrize(
    "command",
    [
        ["c.py", "w.pth", "--seed=1"],
        ["c.py", "--seed", "1", "w.pth"],
        ["--seed", "1", "c.py", "w.pth"],
    ],
)
def test_the_checkpoint_may_stand_behind_options(command):
    args = test_tta.parse_args(command)
    assert (args.config, args.checkpoint, args.seed) == ("c.py", "w.pth", 1)
    assert test_tta.parse_args(["c.py", "--cfg-options", "a=1"]).checkpoint is None
