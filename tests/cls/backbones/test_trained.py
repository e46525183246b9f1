import numpy as np
import pytest
import torch

from mmseg_reservoir.cls.backbones import build_backbone, trained
from mmseg_reservoir.cls.datasets.arrays import ArrayImages
from mmseg_reservoir.errors import ReservoirError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def bright_or_dark(count=64):
    labels = np.arange(count) % 2
    pixels = (
        np.random.default_rng(0).integers(0, 100, (count, 32, 32, 3))
        + 150 * labels[:, None, None, None]
    )
    return ArrayImages(pixels.astype(np.uint8), labels)


def test_training_lowers_the_error():
    torch.manual_seed(0)
    net, data = trained.SmallConvNet(width=4, classes=2).eval(), bright_or_dark()
    trained.train(net, data, epochs=15, lr=1e-2, batch_size=16)
    assert trained.error(net, data) == 0


def test_trained_once_then_read_from_the_cache(cache, monkeypatch):
    calls = []

    def train(net, data, **options):
        calls.append((len(data), options))
        torch.nn.init.constant_(net.head.bias, 3.0)

    monkeypatch.setattr(trained, "train", train)
    first = trained.trained_net("digits_convnet", pretrained=True)
    again = build_backbone({"type": "digits_convnet", "pretrained": True})
    assert len(calls) == 1
    assert calls[0][0] == 1597
    assert (again.head.bias == 3).all()
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)
    )
    trained.trained_net("digits_convnet", pretrained=True, epochs=1)  # another recipe
    assert len(calls) == 2
    assert len(list((cache / "mmseg_reservoir").glob("digits_convnet_*.safetensors"))) == 2


def test_random_weights_depend_on_the_seed_alone_and_must_be_asked_for():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (build_backbone({"type": "digits_vit", "random": True}) for _ in range(2))
    assert torch.equal(one.head.weight, two.head.weight)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ReservoirError, match="'digits_vit' has no weights"):
        build_backbone({"type": "digits_vit"})
