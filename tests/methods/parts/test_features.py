import pytest
import torch
from small_net import make_classifier, make_net
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.parts.features import Features

X = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
        self.head = nn.Linear(4, 5)
        self.unused = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(x))


def test_features_are_what_goes_into_the_last_linear_layer():
    net = make_classifier()
    logits, features = Features(net)(net, X)
    assert torch.equal(features, net[:8](X))
    assert torch.equal(logits, net(X))
    assert not net[8]._forward_pre_hooks  # nothing stays behind


def test_the_head_can_be_named():
    net = TwoHeads()
    features = Features(net, "head")(net, X)[1]
    assert torch.equal(features, net.body(X))


def test_a_layer_that_is_not_the_head_is_found_out():
    net = TwoHeads()
    with pytest.raises(ReservoirError, match=r"'unused' is not the head .* given nothing"):
        Features(net)(net, X)
    with pytest.raises(ReservoirError, match=r"'body\.1' is not the head .*head="):
        Features(net, "body.1")(net, X)
    assert not net.unused._forward_pre_hooks


def test_a_net_without_linear_layers_and_a_wrong_name_are_explained():
    with pytest.raises(ReservoirError, match=r"Sequential has none.*no features"):
        Features(make_net())
    with pytest.raises(ReservoirError, match=r"has no such layer 'fc'.*body.1, head, unused"):
        Features(TwoHeads(), "fc")
