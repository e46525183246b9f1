import inspect
import os
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch
from mmengine.runner import Runner
from safetensors.torch import save_file
from stream_run import SHORT, TINY, data_options, run

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.runs.reader import read_runs
from mmseg_reservoir.seg import AdaptiveSegmentor
from mmseg_reservoir.seg.hooks.adaptation_hook import CONFIG_KEYS


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


def test_no_config_no_checkpoint(capfd, tmp_path):
    assert "no config file nowhere.py" in fail(capfd, "nowhere.py")
    acdc = TINY.parent / "acdc" / "segformer-b5_tent.py"
    assert "no checkpoint: give one as the second argument" in fail(capfd, acdc)
    assert "no checkpoint file none.pth" in fail(capfd, acdc, "none.pth")
    line = fail(capfd, acdc, "--random-weights", f"--work-dir={tmp_path}")
    assert "no images *_rgb_anon.png below data/acdc/rgb_anon/fog/train (seen from /" in line


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
        ("reservoir.kmax=4", "reservoir has no option 'kmax' (did you mean 'k_max'?)"),
        ("source_images.num_imags=3", "source_images has no option 'num_imags'"),
        ("reservoir.guard=5", "reservoir.guard must be a name or dict(type=NAME, ...), got 5"),
        ("reservoir.guard.type=5", "reservoir.guard.type must be a name or a class, got 5"),
        ("test_dataloader.batch_size=0", "test_dataloader.batch_size must be a whole number"),
    ],
)
def test_wrong_options_are_reported_before_anything_is_read(
    capfd, minicity, tmp_path, option, message
):
    """All of them are in tests/test_build.py."""
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"")
    command = [TINY / "segformer-tiny_tent_reservoir.py", broken, f"--work-dir={tmp_path / 'w'}"]
    line = fail(capfd, *command, "--cfg-options", *data_options(minicity), option)
    assert message in line
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("params.under=neck", "below 'neck'"),
        ("test_cfg.round=1", "test_cfg has no option 'round' (did you mean 'rounds'?)"),
    ],
)
def test_wrong_options_of_model_and_loop_leave_no_results(capfd, tent, tmp_path, option, message):
    assert message in fail(capfd, *tent, option)
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
    options = [f"--work-dir={tmp_path}", "--cfg-options", *data_options(minicity), *SHORT]
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
    results = run("segformer-tiny_source", minicity, tmp_path, *SHORT, flags=[weights])
    for visit in results["visits"]:  # everything is vegetation
        scores = visit["per_class"]
        assert scores["vegetation"] > 0
        assert all(not v for name, v in scores.items() if name != "vegetation")


def test_seed_goes_into_the_results(source_run):
    assert source_run.results["seed"] == 7


@pytest.mark.parametrize(
    "command",
    [
        ["c.py", "w.pth", "--seed=1"],
        ["c.py", "--seed", "1", "w.pth"],
        ["--seed", "1", "c.py", "w.pth"],
    ],
)
def test_the_checkpoint_may_stand_behind_options(command):
    args = test_tta.main.parse(command)
    assert (args.config, args.checkpoint, args.seed) == ("c.py", "w.pth", 1)
    assert test_tta.main.parse(["c.py", "--cfg-options", "a=1"]).checkpoint is None


def test_a_work_directory_that_cannot_be_written_to(capfd, tent, tmp_path):
    (tmp_path / "file").write_text("")
    line = fail(capfd, *tent[:2], f"--work-dir={tmp_path / 'file' / 'w'}", *tent[3:])
    assert "cannot write to the work directory" in line
    assert "seed is a whole number" in fail(capfd, *tent[:3], "--seed", "-1", *tent[3:])


def test_a_broken_model_is_refused(capfd, tent, tiny_model, tmp_path):
    state = {name: value.clone() for name, value in tiny_model.state_dict().items()}
    state["decode_head.conv_seg.bias"][3] = torch.nan
    save_file(state, tmp_path / "broken.safetensors")
    line = fail(capfd, tent[0], tmp_path / "broken.safetensors", *tent[2:])
    assert "NaN or infinite values, first in 'decode_head.conv_seg.bias'" in line


def test_nothing_fails_silently(capfd, minicity, tmp_path):
    """An absurd rate and a damaged image: the run ends, and tells both."""
    root = shutil.copytree(minicity, tmp_path / "data")
    broken = min(root.glob("rgb_anon/fog/train/*/*.png"))
    broken.write_bytes(b"")
    for label in root.glob("gt/night/train/*/*.png"):
        cv2.imwrite(str(label), np.full((128, 256), 255, np.uint8))
    options = ["method.optimizer.lr=1e3", "test_cfg.rounds=1"]
    results = run(
        "segformer-tiny_tent", root, tmp_path / "w", *options, flags=["--on-bad-image=skip"]
    )
    fog, night = results["visits"]
    assert (fog["skipped"], fog["n_images"], night["mIoU"]) == (1, 2, None)
    (skipped,) = results["skipped_images"]
    assert (skipped["image"], skipped["round"], skipped["domain"]) == (str(broken), 1, "fog")
    assert "which is empty (0 bytes)" in skipped["cause"]
    assert (results["updates"]["updates"], results["updates"]["rollbacks"]) == (0, 5)
    assert results["updates"]["restarts"] == 1

    printed = capfd.readouterr().out
    assert f"image skipped: cannot read {broken}, which is empty" in printed
    assert "round 1/1 night: no labeled pixel" in printed
    assert f"{fog['mIoU']:.2f}*" in printed
    assert "5 of 5 updates were skipped as not finite or rolled back" in printed
    assert "1 images could not be used and were skipped" in printed
    assert "no labeled pixel in 1 visits (night)" in printed
    before = printed[: printed.index("update undone")].splitlines()
    assert sum(1 + len(line) // 100 for line in before) <= 24  # a screen
    (log,) = (tmp_path / "w").glob("*/*.log")
    assert "Hooks will be executed in the following order" in log.read_text()
    assert "options of this run, defaults included" in log.read_text()


def test_an_abort_gives_the_terminal_back_and_keeps_finished_visits(
    capfd, minicity, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    step = AdaptiveSegmentor.test_step

    def interrupted(self, data):
        if self.domain == "night":
            raise KeyboardInterrupt
        return step(self, data)

    monkeypatch.setattr(AdaptiveSegmentor, "test_step", interrupted)
    command = [TINY / "segformer-tiny_source.py", "--random-weights", f"--work-dir={tmp_path}"]
    command += ["--cfg-options", *data_options(minicity)]
    assert test_tta.main([str(word) for word in command]) == 130
    printed, told = capfd.readouterr()
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l")
    assert len(told.strip().splitlines()[-2:]) == 2
    assert "Traceback" not in told
    (log,) = tmp_path.glob("*/*.log")
    assert "round 1/2 fog: mIoU" in log.read_text()
    (results,) = read_runs([tmp_path]).values()
    assert results["complete"] is False
    assert [visit["domain"] for visit in results["visits"]] == ["fog"]
    assert len(results["routes"]) == 3


def test_images_of_different_sizes_in_a_batch(capfd, minicity, tmp_path):
    root = shutil.copytree(minicity, tmp_path / "data")
    for kind in ("rgb_anon", "gt"):
        path = sorted(root.glob(f"{kind}/fog/train/*/*.png"))[1]
        pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        cv2.imwrite(str(path), pixels[:96])
    command = [TINY / "segformer-tiny_source.py", "--random-weights", f"--work-dir={tmp_path}"]
    command += ["--cfg-options", *data_options(root), "test_dataloader.batch_size=2"]
    assert "different sizes (96x256, 128x256): set test_dataloader" in fail(capfd, *command)


def test_what_cfg_options_may_add():
    runner = set(inspect.signature(Runner.__init__).parameters) - {"self"}
    assert set(test_tta.KNOWN_KEYS) == {*runner, *CONFIG_KEYS, "source_images"}


@pytest.mark.slow
def test_a_run_says_nothing_but_what_it_does(minicity, tmp_path):
    """Of other libraries only mmengine's line about the checkpoint is shown, and no warning."""
    words = [TINY / "segformer-tiny_tent.py", f"--work-dir={tmp_path}", "--cfg-options"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mmseg_reservoir.cli",
            "test",
            *words,
            *data_options(minicity),
            *SHORT,
        ],
        env={name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    first, second, third, *_ = done.stdout.splitlines()
    assert "Load checkpoint from" in first
    assert "SingleModelPipeline around Tent" in second
    assert "round 1/1 fog" in third
    (log,) = tmp_path.glob("*/*.log")
    assert "Loads checkpoint by" in log.read_text()
