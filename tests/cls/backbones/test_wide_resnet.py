import pytest
import torch
from torch.nn import functional as F

from mmseg_reservoir.cls.backbones import WideResNet, build_backbone
from mmseg_reservoir.errors import ReservoirError


def test_wrn_28_10_has_36_48_million_parameters():
    with torch.device("meta"):
        net = WideResNet(28, 10)
    assert sum(p.numel() for p in net.parameters()) == 36_479_194
    assert len(net.block1.layer) == len(net.block3.layer) == 4


def test_names_are_those_of_robustbench():
    with torch.device("meta"):
        names = set(WideResNet(28, 10).state_dict())
    block = ("bn1.weight", "bn1.running_mean", "conv1.weight", "bn2.bias", "conv2.weight")
    for number in (1, 2, 3):
        for name in block:
            assert f"block{number}.layer.3.{name}" in names
        assert f"block{number}.layer.0.convShortcut.weight" in names
        assert f"block{number}.layer.1.convShortcut.weight" not in names
    assert {"conv1.weight", "bn1.running_var", "fc.weight", "fc.bias"} <= names


def test_the_forward_pass_by_its_definition():
    """Norm and ReLU before each convolution; a convolved shortcut begins behind the first ReLU."""
    torch.manual_seed(0)
    net = WideResNet(10, 1).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -1, 1)
            torch.nn.init.uniform_(module.weight)
    images = torch.rand(2, 3, 32, 32)
    weights = net.state_dict()

    def norm(x, name):
        parts = (weights[f"{name}.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts)

    x = F.conv2d(images, weights["conv1.weight"], padding=1)
    for group, stride in ((1, 1), (2, 2), (3, 2)):
        name = f"block{group}.layer.0"
        active = norm(x, f"{name}.bn1").relu()
        y = F.conv2d(active, weights[f"{name}.conv1.weight"], stride=stride, padding=1)
        y = F.conv2d(norm(y, f"{name}.bn2").relu(), weights[f"{name}.conv2.weight"], padding=1)
        shortcut = x  # 16 channels to 16: an identity
        if group > 1:
            shortcut = F.conv2d(active, weights[f"{name}.convShortcut.weight"], stride=stride)
        x = shortcut + y
    assert x.shape == (2, 64, 8, 8)
    x = F.avg_pool2d(norm(x, "bn1").relu(), 8).flatten(1)
    expected = F.linear(x, weights["fc.weight"], weights["fc.bias"])
    assert torch.allclose(net(images), expected, atol=1e-5)


def test_options():
    net = build_backbone(dict(type="wrn28_10", depth=10, width=1, classes=7, random=True))
    assert net.fc.out_features == 7
    assert not net.training
    with pytest.raises(ReservoirError, match=r"depth must be 10, 16, 22, 28, ..."):
        WideResNet(depth=29)
