import pytest
import torch
from small_net import make_classifier, make_net
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.registry import find
from mmseg_reservoir.style import ModelStyleEncoder
from mmseg_reservoir.style.encoder import Encoder
from mmseg_reservoir.style.statistics import logvar


def test_statistics_of_the_models_own_layers():
    net, x = make_net(), torch.randn(2, 3, 8, 8)
    encoder = ModelStyleEncoder(net, taps=["0", "3"])
    first = net[0](x)
    fourth = net[3](net[2](net[1](first)))
    torch.testing.assert_close(encoder(x), torch.cat([logvar(first), logvar(fourth)]))


def test_style_does_not_change_while_the_model_adapts():
    net, x = make_net(), torch.randn(2, 3, 8, 8)
    encoder = ModelStyleEncoder(net, taps=["1"])
    before = encoder(x)
    space = ParamSpace(net, norm_affine(net))
    space.load(space.snapshot() * 5)
    assert torch.equal(encoder(x), before)


def test_a_smaller_copy_of_the_images_is_enough():
    net, x = make_net(), torch.randn(2, 3, 8, 8)
    encoder = ModelStyleEncoder(net, taps=["0"], size=4)
    torch.testing.assert_close(encoder(x), logvar(net[0](torch.nn.functional.avg_pool2d(x, 2))))
    assert encoder.fingerprint()["size"] == 4
    assert "size" not in ModelStyleEncoder(net, taps=["0"]).fingerprint()


def test_stops_after_the_last_tap():
    net = make_net()
    net[6].forward = None  # would fail if it were called
    assert ModelStyleEncoder(net, taps=["0"])(torch.randn(1, 3, 8, 8)).shape == (8,)


def test_tokens_are_maps_too():
    net = torch.nn.Sequential(torch.nn.LayerNorm(6))
    tokens = torch.randn(2, 10, 6)
    style = ModelStyleEncoder(net, taps=["0"])(tokens)
    torch.testing.assert_close(style, net(tokens).reshape(20, 6).var(0).log())


def test_unknown_module_is_explained():
    with pytest.raises(ReservoirError, match="no module 'backbone'"):
        ModelStyleEncoder(make_net(), taps=["backbone"])
    with pytest.raises(ReservoirError, match="taps is empty"):
        ModelStyleEncoder(make_net(), taps=[])


def test_groups_are_known_after_the_first_image():
    net, x = make_net(), torch.randn(2, 3, 8, 8)
    encoder = ModelStyleEncoder(net, taps=["6", "0", "6"], statistic="mean_var")
    assert encoder.groups is None
    style = encoder(x)
    assert encoder.groups == [10, 16]  # in the order of the taps
    torch.testing.assert_close(style[:10], find("statistic", "mean_var")(net(x)))
    with pytest.raises(RuntimeError):
        encoder(torch.randn(2, 4, 8, 8))  # a pass that fails leaves them as they are
    assert encoder.groups == [10, 16]


class Pair(nn.Module):
    def forward(self, x):
        return x, x.shape


@pytest.mark.parametrize(
    ("module", "returns"),
    [(Pair(), "a tuple"), (nn.Flatten(), r"a tensor \(2, 192\)")],
    ids=["tuple", "vector"],
)
def test_a_tap_that_returns_no_features_is_named(module, returns):
    encoder = ModelStyleEncoder(nn.Sequential(nn.Identity(), module), taps="1")
    with pytest.raises(ReservoirError, match=f"tap '1' returns {returns}.*choose another module"):
        encoder(torch.randn(2, 3, 8, 8))


def test_a_module_that_is_not_run_is_named():
    net = make_net()
    net[0].unused = nn.Identity()
    with pytest.raises(ReservoirError, match=r"modules \['0.unused'\] did not run"):
        ModelStyleEncoder(net, taps=["0", "0.unused"])(torch.randn(1, 3, 8, 8))


def test_classifiers_have_styles_too():
    net, x = make_classifier(), torch.randn(4, 3, 8, 8)
    space = ParamSpace(net, norm_affine(net))  # as they are when they adapt
    encoder = ModelStyleEncoder(net, taps=["0", "4"], statistic=lambda z: z.amax((0, 2, 3)))
    expected = torch.cat([net[0](x).amax((0, 2, 3)), net[:5](x).amax((0, 2, 3))])
    torch.testing.assert_close(encoder(x), expected.detach())
    space.load(space.snapshot() + 1)
    torch.testing.assert_close(encoder(x), expected.detach())
    assert encoder.groups == [8, 8]


def test_is_an_encoder_for_the_models_inputs():
    assert find("style", "model") is ModelStyleEncoder
    assert issubclass(ModelStyleEncoder, Encoder)
    assert ModelStyleEncoder.sees == "inputs"
    one, two = (ModelStyleEncoder(make_net(), taps=taps) for taps in (["0"], ["1"]))
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() == ModelStyleEncoder(make_net(), taps="0").fingerprint()
