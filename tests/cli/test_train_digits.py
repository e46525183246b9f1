import json

import numpy as np
import pytest
import torch

from mmseg_reservoir.cli import train_digits
from mmseg_reservoir.cls.backbones import build_backbone, trained
from mmseg_reservoir.datasets.base import ArrayImages
from mmseg_reservoir.io.files import read_tensors


def bright_or_dark(count=64):
    labels = np.arange(count) % 2
    pixels = (
        np.random.default_rng(0).integers(0, 100, (count, 32, 32, 3))
        + 150 * labels[:, None, None, None]
    )
    return ArrayImages(pixels.astype(np.uint8), labels)


def test_it_stores_both_networks_and_tells_their_error(tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(train_digits, "train", lambda net, data, **options: calls.append(options))
    assert train_digits.main([f"--out={tmp_path}"]) == 0
    assert calls == list(train_digits.RECIPES.values())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(trained.NETS)
    for name, line in zip(trained.NETS, lines, strict=True):
        path = tmp_path / f"{name}.safetensors"
        assert json.loads(read_tensors(path)[1]["about"])["net"] == name
        assert line.startswith(f"{name}: ")
        assert line.endswith(f" % error on clean test digits, {path}")


def test_training_lowers_the_error():
    torch.manual_seed(0)
    net, data = trained.SmallConvNet(width=4, classes=2).eval(), bright_or_dark()
    train_digits.train(net, data, epochs=15, lr=1e-2, batch_size=16)
    assert train_digits.error(net, data) == 0


def test_a_file_of_ones_own(tmp_path):
    net = trained.trained_net("digits_convnet", pretrained=True)
    torch.nn.init.constant_(net.head.bias, 3.0)
    path = train_digits.write_net(net, "digits_convnet", tmp_path, 1.0)
    again = build_backbone({"type": "digits_convnet", "checkpoint": str(path)})
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("name", trained.NETS)
def test_training_starts_from_its_seed(name):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (train_digits.train_net(name, bright_or_dark(), epochs=1) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.head.weight, two.head.weight)
    assert not torch.equal(one.head.weight, trained.trained_net(name).head.weight)
