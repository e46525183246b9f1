"""With a stand-in for timm, which the tests do not need; with timm itself where it is installed."""

import builtins
import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mmseg_reservoir.cls.backbones import build_backbone
from mmseg_reservoir.errors import ReservoirError

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)


@pytest.fixture
def asked(monkeypatch):
    """What the stand-in was asked for."""
    asked = []

    def create_model(name, pretrained, num_classes):
        if name == "absent":
            raise RuntimeError("Unknown model (absent)")
        asked.append((name, pretrained, num_classes))
        torch.manual_seed(0)
        net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, num_classes))
        net.pretrained_cfg = {"mean": MEAN, "std": STD, "num_classes": 1000}
        return net

    timm = SimpleNamespace(create_model=create_model, list_models=lambda pattern: ["absentee"])
    monkeypatch.setitem(sys.modules, "timm", timm)
    return asked


def test_the_models_of_the_paper(asked):
    for kind in ("resnet50", "resnet50_gn", "vit_b16"):
        build_backbone(dict(type=kind, pretrained=True))
    build_backbone(dict(type="timm", name="convnext_tiny", classes=7, random=True))
    assert asked == [
        ("resnet50.tv_in1k", True, 1000),
        ("resnet50_gn.a1h_in1k", True, 1000),
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", True, 1000),
        ("convnext_tiny", False, 7),
    ]


def test_images_are_normalised_as_the_weights_want(asked):
    net = build_backbone(dict(type="resnet50", classes=4, random=True))
    images = torch.rand(2, 3, 8, 8)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    assert torch.allclose(net(images), net.net((images - mean) / std))
    assert not any(name in net.state_dict() for name in ("mean", "std"))


def test_a_checkpoint(asked, tmp_path):
    net = nn.Sequential(nn.Identity(), nn.Identity(), nn.Linear(3, 4))
    torch.save({"state_dict": net.state_dict()}, tmp_path / "net.pt")
    options = dict(type="resnet50", classes=4, checkpoint=tmp_path / "net.pt")
    assert torch.equal(build_backbone(options).net[2].weight, net[2].weight)
    with pytest.raises(ReservoirError, match="either pretrained=True or a checkpoint"):
        build_backbone({**options, "pretrained": True})
    with pytest.raises(ReservoirError, match=r"does not fit Sequential .*number of classes"):
        build_backbone({**options, "classes": 5})


def test_pretrained_weights_know_how_many_classes_they_have(asked):
    options = dict(type="resnet50", classes=7)
    with pytest.raises(
        ReservoirError, match=r"'resnet50.tv_in1k' are for 1000 .*not for 7: give c"
    ):
        build_backbone({**options, "pretrained": True})
    assert build_backbone({**options, "random": True})(torch.rand(2, 3, 8, 8)).shape == (2, 7)


def test_unknown_models(asked):
    with pytest.raises(ReservoirError, match=r"cannot make 'absent' .*similar: absentee"):
        build_backbone(dict(type="timm", name="absent", random=True))


def test_without_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ReservoirError, match=r"needs timm .*pip install timm"):
        build_backbone(dict(type="resnet50", random=True))


def test_with_a_torchvision_of_another_torch(monkeypatch):
    real = builtins.__import__

    def broken(name, *args):
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ReservoirError, match=r"torchvision does not fit torch .*nms does not ex"):
        build_backbone(dict(type="vit_b16", random=True))


def test_adacontrast(asked, tmp_path):
    """Its checkpoints have a bottleneck, and a classifier with weight normalisation."""
    options = dict(type="resnet50_adacontrast", bottleneck=6, classes=5)
    net = build_backbone({**options, "random": True}).net
    assert asked == [("resnet50.tv_in1k", False, 6)]
    weights = net.state_dict()
    assert {"encoder.0.2.weight", "encoder.1.running_mean", "fc.bias"} <= set(weights)
    linear = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5), dim=0)
    del weights["fc.weight"]
    weights["fc.weight_g"], weights["fc.weight_v"] = (
        3 * linear.parametrizations.weight.original0.detach(),
        linear.parametrizations.weight.original1.detach(),
    )
    weights = {f"module.{name}": tensor for name, tensor in weights.items()}
    torch.save({"state_dict": weights}, tmp_path / "source.pth")
    loaded = build_backbone({**options, "checkpoint": tmp_path / "source.pth"})
    assert torch.allclose(loaded.net.fc.weight, 3 * linear.weight, atol=1e-6)
    assert loaded(torch.rand(2, 3, 8, 8)).shape == (2, 5)
    with pytest.raises(ReservoirError, match=r"give checkpoint=PATH \(or random=True"):
        build_backbone(options)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
@pytest.mark.parametrize(
    ("kind", "count"),
    [("resnet50", 25_557_032), ("resnet50_gn", 25_557_032), ("vit_b16", 86_567_656)],
)
def test_parameters_of_the_real_ones(kind, count):
    with torch.device("meta"):
        net = build_backbone(dict(type=kind, random=True))
    assert sum(p.numel() for p in net.parameters()) == count
