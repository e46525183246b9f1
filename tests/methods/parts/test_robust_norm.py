import pytest
import torch
from small_net import make_classifier
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.parts.robust_norm import RobustNorms
from mmseg_reservoir.spaces import ParamSpace, norm_affine
from mmseg_reservoir.spaces.normalisation import Statistics, use_batch_statistics

X = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1


def test_statistics_become_values_of_the_space_and_learn_only_in_the_context():
    net = make_classifier()
    space = ParamSpace(net, norm_affine(net))
    adapting = len(space)
    norms = RobustNorms(space, 0.5)
    assert space.adapting == adapting
    assert space.names[-2:] == ["4.running_mean", "4.running_var"]
    assert len(space) == adapting + 16
    before = space.snapshot()
    net(X)
    assert torch.equal(space.values, before)
    with norms.learning():
        net(X).sum().backward()
    assert torch.equal(space.values[:adapting], before[:adapting])
    assert not torch.isclose(space.values[adapting:], before[adapting:]).any()
    assert space.values.grad[:adapting].abs().sum() > 0
    assert not space.values.grad[adapting:].any()
    moved = net(X)
    space.load(before)
    assert not torch.allclose(net(X), moved)
    with space.at(before + 1):
        assert torch.equal(net[4].running_mean, before[adapting : adapting + 8] + 1)


def test_unless_they_learn_the_model_is_the_one_that_came():
    net, x = make_classifier(), X
    expected = net(x)
    norms = RobustNorms(ParamSpace(net, norm_affine(net)), 0.5)
    torch.testing.assert_close(net(x), expected)
    with norms.learning(), torch.no_grad():  # a teacher has no gradient
        assert not torch.allclose(net(x), expected)


def test_a_net_without_batch_normalisation_has_nothing_to_carry():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    space = ParamSpace(net, norm_affine(net))
    assert not RobustNorms(space, 0.5).layers
    assert len(space) == 8


def test_other_statistics_leave_nothing_to_start_from():
    net = make_classifier()
    use_batch_statistics(net)
    with pytest.raises(ReservoirError, match=r'but 4 keeps none: .* statistics="batch"'):
        RobustNorms(ParamSpace(net, norm_affine(net)), 0.5)
    net = make_classifier()
    Statistics(0.1).apply(net)
    with pytest.raises(ReservoirError, match=r'blend them already: .*statistics="running"'):
        RobustNorms(ParamSpace(net, norm_affine(net)), 0.5)


def test_plain_layers_are_replaced_also_a_second_time():
    net = nn.Sequential(
        nn.BatchNorm1d(3), nn.SyncBatchNorm(3), type("Own", (nn.BatchNorm3d,), {})(3)
    )
    for _ in range(2):
        assert len(RobustNorms(ParamSpace(net, norm_affine(net)), 0.5).layers) == 3
