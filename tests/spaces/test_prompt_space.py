import pytest
import torch
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.spaces.prompt_space import PromptSpace, PromptTokens


class Blocks(nn.Module):
    """Two blocks that tell what they see; the classifier gets the sum of the tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.head = nn.Identity(), nn.Identity(), nn.Identity()
        self.prompts = PromptTokens(torch.tensor([[10.0, 20.0]]), position=1)
        self.prompts.attach(self.first, self.last)
        self.between = []

    def forward(self, x):
        x = self.first(x)
        self.between.append(x.detach())
        return self.head(self.last(x).sum(dim=1))


def make():
    net = Blocks()
    return net, PromptSpace(net, "prompts.tokens", net.prompts, net.head)


X = torch.arange(12.0).view(2, 3, 2)


def test_prompts_are_there_between_the_blocks_and_nowhere_else():
    net, space = make()
    out = net(X)
    assert net.between[0].tolist()[0] == [[0, 1], [10, 20], [2, 3], [4, 5]]
    assert torch.equal(out, X.sum(dim=1))
    with space.hidden():
        net(X)
    assert torch.equal(net.between[1], X)
    net(X)
    assert torch.equal(net.between[2], net.between[0])


def test_hidden_ends_with_an_error_too():
    net, space = make()
    with pytest.raises(KeyError), space.hidden():
        raise KeyError
    net(X)
    assert net.between[0].shape == (2, 4, 2)


def test_at_the_initial_values_there_are_no_prompts_and_at_others_there_are():
    net, space = make()
    space.load(torch.tensor([7.0, 8.0]))
    for values, tokens in ((space.initial, 3), (space.initial + 1, 4)):
        with space.at(values):
            net(X)
        assert net.between[-1].shape[1] == tokens
    assert net.between[-1][0, 1].tolist() == [11, 21]
    assert space.values.tolist() == [7, 8]


def test_features_are_what_the_classifier_gets_and_the_hook_goes():
    net, space = make()
    logits, features = space.features(net, X)
    assert torch.equal(features, X.sum(dim=1))
    assert torch.equal(logits, features)
    assert not net.head._forward_pre_hooks


def test_blocks_of_something_else_are_refused():
    net, _ = make()
    for wrong in (torch.zeros(2, 3, 5), torch.zeros(2, 3, 4, 2)):
        with pytest.raises(ReservoirError, match=r"blocks of tokens \(N, L, 2\), got \(2, 3, "):
            net(wrong)
