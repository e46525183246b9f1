import pytest
import torch
from torch.nn import functional as F

from mmseg_reservoir.cls.backbones import CifarResNeXt, WideResNet, build_backbone
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


def test_the_forward_pass_of_wrn_by_its_definition():
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


def test_options_of_wrn():
    net = build_backbone(dict(type="wrn28_10", depth=10, width=1, classes=7, random=True))
    assert net.fc.out_features == 7
    assert not net.training
    with pytest.raises(ReservoirError, match=r"depth must be 10, 16, 22, 28, ..."):
        WideResNet(depth=29)


def test_augmix_has_6_90_million_parameters():
    with torch.device("meta"):
        net = CifarResNeXt()
    assert sum(p.numel() for p in net.parameters()) == 6_900_132
    groups = {m.groups for m in net.modules() if isinstance(m, torch.nn.Conv2d)}
    assert groups == {1, 4}
    assert net.stage_1[0].conv_conv.in_channels == 4 * 32


def test_names_are_those_of_augmix():
    with torch.device("meta"):
        names = set(CifarResNeXt().state_dict())
    parts = ("conv_reduce", "bn_reduce", "conv_conv", "bn", "conv_expand", "bn_expand")
    for stage in (1, 2, 3):
        for block in (0, 1, 2):
            for part in parts:
                assert f"stage_{stage}.{block}.{part}.weight" in names
        assert f"stage_{stage}.0.downsample.0.weight" in names
        assert f"stage_{stage}.0.downsample.1.running_var" in names
        assert f"stage_{stage}.1.downsample.0.weight" not in names
    assert {"conv_1_3x3.weight", "bn_1.weight", "classifier.weight", "classifier.bias"} <= names
    assert not {"mean", "std"} & names


def test_augmix_normalises_by_itself():
    torch.manual_seed(0)
    plain = CifarResNeXt(depth=11, mean=0, std=1).eval()
    net = CifarResNeXt(depth=11).eval()
    net.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(net(images), plain(2 * images - 1), atol=1e-5)
        assert not torch.allclose(net(images), plain(images), atol=1e-3)
        assert net.stage_3(net.stage_2(net.stage_1(torch.rand(1, 64, 32, 32)))).shape[2:] == (8, 8)


def test_the_forward_pass_of_augmix_by_its_definition():
    """Narrow, convolve in groups, widen; each with a norm, the last ReLU behind the sum."""
    torch.manual_seed(0)
    net = CifarResNeXt(depth=11, groups=2, base=8, classes=5).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -1, 1)
            torch.nn.init.uniform_(module.weight)
    weights = net.state_dict()

    def norm(x, name):
        parts = (weights[f"{name}.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts)

    images = torch.rand(2, 3, 32, 32)
    x = norm(F.conv2d((images - 0.5) / 0.5, weights["conv_1_3x3.weight"], padding=1), "bn_1").relu()
    for stage, stride in ((1, 1), (2, 2), (3, 2)):
        name = f"stage_{stage}.0"
        y = norm(F.conv2d(x, weights[f"{name}.conv_reduce.weight"]), f"{name}.bn_reduce").relu()
        y = F.conv2d(y, weights[f"{name}.conv_conv.weight"], stride=stride, padding=1, groups=2)
        y = F.conv2d(norm(y, f"{name}.bn").relu(), weights[f"{name}.conv_expand.weight"])
        shortcut = F.conv2d(x, weights[f"{name}.downsample.0.weight"], stride=stride)
        x = (norm(y, f"{name}.bn_expand") + norm(shortcut, f"{name}.downsample.1")).relu()
    x = F.avg_pool2d(x, 8).flatten(1)
    expected = F.linear(x, weights["classifier.weight"], weights["classifier.bias"])
    assert torch.allclose(net(images), expected, atol=1e-4)


def test_options_of_augmix():
    net = build_backbone(dict(type="resnext29_augmix", depth=11, classes=10, random=True))
    assert net.classifier.out_features == 10
    with pytest.raises(ReservoirError, match="depth must be 11, 20, 29"):
        CifarResNeXt(depth=30)
