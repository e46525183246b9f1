"""Checkpoints: read safely, and refused where they do not fit."""

import os

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric
from mmengine.hooks import EMAHook
from mmengine.logging import HistoryBuffer
from mmengine.model import BaseModel
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from safetensors.torch import save_file
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.checkpoint import (
    StrictCheckpointHook,
    check_compatible,
    load,
    read_checkpoints_safely,
)


@pytest.fixture(autouse=True)
def restore_loaders(monkeypatch):
    """Undo what read_checkpoints_safely and the hook register."""
    monkeypatch.setattr(CheckpointLoader, "_schemes", dict(CheckpointLoader._schemes))


class Numbers(BaseDataset):
    METAINFO = {"classes": ("road", "sky"), "palette": [[0, 0, 0], [9, 9, 9]]}

    def load_data_list(self):
        return [{"value": float(number)} for number in range(4)]


class Toy(BaseModel):
    def __init__(self, width=2):
        super().__init__()
        self.linear = nn.Linear(1, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, value, mode="tensor", **others):
        output = self.norm(self.linear(torch.tensor(value)[:, None]))
        return {"loss": output.square().mean()} if mode == "loss" else list(output)


class Nothing(BaseMetric):
    def process(self, data_batch, data_samples):
        self.results += data_samples

    def compute_metrics(self, results):
        return {"count": len(results)}


def make_runner(work_dir, model=None, **options):
    """A Runner with everything that writes to a checkpoint: logs, optimizer, schedulers."""
    loader = {
        "dataset": Numbers(),
        "batch_size": 2,
        "sampler": {"type": "DefaultSampler", "shuffle": False},
    }
    return Runner(
        model or Toy(),
        str(work_dir),
        train_dataloader=loader,
        train_cfg={"by_epoch": True, "max_epochs": 2},
        optim_wrapper={"optimizer": {"type": "AdamW", "lr": 0.1}},
        param_scheduler={"type": "PolyLR", "by_epoch": False, "end": 4},
        test_dataloader=loader,
        test_cfg={},
        test_evaluator=Nothing(),
        log_level="ERROR",
        experiment_name=f"{work_dir.parent.name}_{work_dir.name}",
        **options,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a real training run."""
    folder = tmp_path_factory.mktemp("training") / "run"
    runner = make_runner(folder, custom_hooks=[EMAHook()])
    runner.message_hub.update_scalar("val/mIoU", np.float32(0.5))
    runner.train()
    return folder / "epoch_2.pth"


def test_checkpoint_of_a_training_run_loads(trained):
    checkpoint = load(trained)
    assert {"state_dict", "message_hub", "optimizer", "ema_state_dict"} <= set(checkpoint)
    scalars = checkpoint["message_hub"]["log_scalars"]
    assert scalars["val/mIoU"].current() == 0.5
    assert isinstance(scalars["train/loss"], HistoryBuffer)
    assert scalars["train/loss"].statistics("mean") > 0


class Attack:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("device", [None, "cpu", "meta", torch.device("meta")])
def test_mmengine_finds_the_safetensors_loader(tmp_path, device):
    path = tmp_path / "weights.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    checkpoint = CheckpointLoader.load_checkpoint(str(path), map_location=device)
    assert set(checkpoint) == {"state_dict"}
    weight = checkpoint["state_dict"]["weight"]
    assert weight.shape == (2,)
    assert weight.device.type == torch.device(device or "cpu").type


def test_download_is_read_safely_and_kept(tmp_path, monkeypatch):
    downloads = []

    def download(url, target):
        downloads.append(url)
        torch.save({"state_dict": Attack(os.mkdir, str(tmp_path / "trace"))}, target)

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    read_checkpoints_safely()
    for _ in range(2):
        with pytest.raises(ReservoirError, match="could run code"):
            CheckpointLoader.load_checkpoint("https://example.org/evil.pth?version=2")
    assert downloads == ["https://example.org/evil.pth?version=2"]
    assert (tmp_path / "checkpoints" / "evil.pth").is_file()


def test_matching_checkpoint_is_accepted_with_and_without_wrapping():
    model = Toy()
    weights = model.state_dict()
    check_compatible(model, {"state_dict": weights})
    check_compatible(model, weights)
    check_compatible(model, {f"module.{name}": tensor for name, tensor in weights.items()})


def test_batch_counters_may_be_missing():
    weights = Toy().state_dict()
    del weights["norm.num_batches_tracked"]
    check_compatible(Toy(), weights)


def test_mismatch_is_one_line_with_counts_shapes_and_remedy():
    weights = Toy(width=3).state_dict()
    del weights["linear.bias"]
    with pytest.raises(ReservoirError) as error:
        check_compatible(Toy(), {"state_dict": weights})
    message = str(error.value)
    assert "\n" not in message
    assert "6 tensors, 1 missing and 5 of another shape" in message
    assert "linear.weight: (3, 1) in the checkpoint, (2, 1) in the model" in message
    assert "linear.bias: missing in the checkpoint, (2,) in the model" in message
    assert "Use the config that the checkpoint was trained with" in message
    assert "--allow-mismatch" in message


def test_allowed_mismatch_and_unexpected_tensors_are_logged(monkeypatch):
    logged = []
    monkeypatch.setattr(
        "mmseg_reservoir.seg.checkpoint.print_log", lambda text, **options: logged.append(text)
    )
    weights = Toy().state_dict()
    check_compatible(Toy(), {**weights, "head.weight": torch.ones(1)})
    assert logged == [
        "1 of the checkpoint's 7 tensors have no place in the model and are ignored: head.weight"
    ]
    check_compatible(Toy(width=3), weights, allow_mismatch=True)
    assert "does not fit" in logged[1]


def test_hook_is_in_the_root_registry():
    assert HOOKS.get("StrictCheckpointHook") is StrictCheckpointHook


def test_runner_with_the_hook_loads_a_matching_checkpoint(tmp_path, trained):
    hook = {"type": "StrictCheckpointHook"}
    runner = make_runner(tmp_path / "run", load_from=str(trained), custom_hooks=[hook])
    assert runner.test() == {"count": 4}
    expected = load(trained)["state_dict"]["linear.weight"]
    torch.testing.assert_close(runner.model.linear.weight.data, expected)


def test_runner_with_the_hook_stops_before_it_changes_the_model(tmp_path, trained):
    model = Toy(width=3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    hook = {"type": "StrictCheckpointHook"}
    runner = make_runner(tmp_path / "run", model, load_from=str(trained), custom_hooks=[hook])
    with pytest.raises(ReservoirError, match="does not fit the model"):
        runner.test()
    torch.testing.assert_close(dict(model.state_dict()), before)


def test_runner_with_the_hook_can_be_told_to_go_on(tmp_path, trained):
    hook = {"type": "StrictCheckpointHook", "allow_mismatch": True}
    runner = make_runner(
        tmp_path / "run", Toy(width=3), load_from=str(trained), custom_hooks=[hook]
    )
    assert runner.test() == {"count": 4}


def test_runner_with_the_hook_reports_a_broken_file(tmp_path):
    (tmp_path / "page.pth").write_text("<html>")
    runner = make_runner(
        tmp_path / "run",
        load_from=str(tmp_path / "page.pth"),
        custom_hooks=[{"type": "StrictCheckpointHook"}],
    )
    with pytest.raises(ReservoirError, match="is not a checkpoint"):
        runner.test()
