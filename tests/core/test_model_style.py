import pytest
import torch
from small_net import make_net

from mmseg_reservoir.core import ModelStyleEncoder, ParamSpace, norm_affine
from mmseg_reservoir.core.statistics import logvar
from mmseg_reservoir.errors import ReservoirError


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
