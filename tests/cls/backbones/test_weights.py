import pytest
import torch
from safetensors.torch import save_file

from mmseg_reservoir.cls.backbones import CifarResNeXt, build_backbone, load_weights
from mmseg_reservoir.errors import ReservoirError

SMALL = dict(depth=11, groups=2, base=8, classes=5)


def make(seed):
    torch.manual_seed(seed)
    return CifarResNeXt(**SMALL)


@pytest.fixture
def trained():
    return make(1)


def with_prefix(prefix, net):
    return {f"{prefix}{name}": tensor for name, tensor in net.state_dict().items()}


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model.", "model.module."])
@pytest.mark.parametrize("place", [None, "state_dict", "model"])
def test_prefixes_and_places(trained, tmp_path, prefix, place):
    weights = with_prefix(prefix, trained)
    torch.save({place: weights, "epoch": 3} if place else weights, tmp_path / "net.pt")
    net = make(2)
    load_weights(net, tmp_path / "net.pt")
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, trained.state_dict()[name])


def test_robustbench_buffers_and_old_counters(trained, tmp_path):
    weights = {n: t for n, t in trained.state_dict().items() if "num_batches" not in n}
    weights |= {"mu": torch.full((1, 3, 1, 1), 0.5), "sigma": torch.full((1, 3, 1, 1), 0.5)}
    torch.save({"state_dict": weights}, tmp_path / "net.pt")
    net = make(2)
    load_weights(net, tmp_path / "net.pt")
    assert torch.equal(net.classifier.weight, trained.classifier.weight)


def test_safetensors(trained, tmp_path):
    save_file(trained.state_dict(), tmp_path / "net.safetensors")
    options = dict(type="resnext29_augmix", checkpoint=tmp_path / "net.safetensors", **SMALL)
    assert torch.equal(build_backbone(options).classifier.weight, trained.classifier.weight)
    (tmp_path / "net.safetensors").write_bytes(b"x")
    with pytest.raises(ReservoirError, match=r"net.safetensors cannot be read"):
        build_backbone(options)


def test_what_does_not_fit_is_refused_and_changes_nothing(trained, tmp_path):
    weights = trained.state_dict()
    del weights["bn_1.weight"]
    weights["extra.weight"] = torch.zeros(1)
    weights["classifier.weight"] = torch.zeros(9, 1024)
    torch.save(weights, tmp_path / "net.pt")
    net = make(2)
    before = net.bn_1.bias.clone(), net.conv_1_3x3.weight.clone()
    message = r"3 differences: bn_1.weight: missing .*; extra.weight: not in the model; classifier"
    with pytest.raises(ReservoirError, match=message):
        load_weights(net, tmp_path / "net.pt")
    assert torch.equal(net.conv_1_3x3.weight, before[1])


def test_what_is_no_checkpoint(tmp_path):
    torch.save({"state_dict": {}, "epoch": 3}, tmp_path / "empty.pt")
    with pytest.raises(ReservoirError, match="holds no weights"):
        load_weights(make(0), tmp_path / "empty.pt")
    (tmp_path / "page.pt").write_text("<html>quota exceeded</html>")
    with pytest.raises(ReservoirError, match=r"page.pt is not a checkpoint .* a web page"):
        load_weights(make(0), tmp_path / "page.pt")


def test_random_weights_must_be_meant():
    with pytest.raises(ReservoirError, match="has no weights: give checkpoint=PATH"):
        build_backbone(dict(type="resnext29_augmix", **SMALL))
    with pytest.raises(ReservoirError, match=r"give checkpoint=PATH, or pretrained=True"):
        build_backbone(dict(type="resnet50"))
    with pytest.raises(ReservoirError, match=r"unknown backbone 'wrn'.*wrn28_10"):
        build_backbone(dict(type="wrn"))
    with pytest.raises(ReservoirError, match="model has no option 'classses'"):
        build_backbone(dict(type="wrn28_10", random=True, classses=3))
