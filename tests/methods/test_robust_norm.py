import copy

import pytest
import torch
from small_net import make_classifier
from torch import nn

from mmseg_reservoir.core import ParamSpace, norm_affine
from mmseg_reservoir.core.params import use_batch_statistics
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.robust_norm import RobustBatchNorm, RobustNorms

X = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1


def some_norm(cls=nn.BatchNorm2d, **options):
    torch.manual_seed(0)
    norm = cls(3, **options).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norm


@pytest.mark.parametrize("affine", [True, False])
def test_unless_it_learns_it_is_the_layer_that_it_replaces(affine):
    norm = some_norm(affine=affine)
    expected, before = norm(X), copy.deepcopy(norm.state_dict())
    robust = RobustBatchNorm(norm, 0.3)
    torch.testing.assert_close(robust(X), expected)
    assert all(torch.equal(v, before[k]) for k, v in robust.state_dict().items())
    assert set(robust.state_dict()) == set(before)


@pytest.mark.parametrize(
    ("cls", "x"),
    [(nn.BatchNorm2d, X), (nn.BatchNorm1d, X[:, :, 0, 0]), (nn.BatchNorm1d, X[..., 0])],
)
def test_learning_normalises_by_statistics_that_move_a_little(cls, x):
    norm = some_norm(cls)
    rows = x.movedim(1, -1).reshape(-1, 3)
    mean = 0.7 * norm.running_mean + 0.3 * rows.mean(0)
    var = 0.7 * norm.running_var + 0.3 * rows.var(0, unbiased=False)
    weight, bias = norm.weight.detach(), norm.bias.detach()
    expected = ((rows - mean) / (var + norm.eps).sqrt() * weight + bias).reshape(
        x.movedim(1, -1).shape
    )
    robust = RobustBatchNorm(norm, 0.3)
    robust.learning = True
    torch.testing.assert_close(robust(x).detach(), expected.movedim(-1, 1))
    torch.testing.assert_close(robust.running_mean, mean)
    torch.testing.assert_close(robust.running_var, var)


def test_the_gradient_goes_through_the_share_of_the_batch():
    robust = RobustBatchNorm(some_norm(), 1.0)  # a share of 1 is ordinary batch normalisation
    robust.learning = True
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    weights = torch.randn(X.shape, generator=torch.Generator().manual_seed(1))
    (robust(x) * weights).sum().backward()
    norm = some_norm().train()
    (norm(y) * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


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


def test_a_net_without_batch_normalisation_has_nothing_to_carry():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    space = ParamSpace(net, norm_affine(net))
    assert not RobustNorms(space, 0.5).layers
    assert len(space) == 8


def test_batch_statistics_leave_nothing_to_start_from():
    net = make_classifier()
    use_batch_statistics(net)
    with pytest.raises(ReservoirError, match=r"but 4 keeps none: build .* batch_statistics=False"):
        RobustNorms(ParamSpace(net, norm_affine(net)), 0.5)


class NormWithActivation(nn.BatchNorm2d):
    """As timm's BatchNormAct2d."""

    def forward(self, x):
        return super().forward(x).relu()


def test_a_layer_that_does_more_than_normalise_is_refused():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(NormWithActivation(3)))
    space = ParamSpace(net, norm_affine(net))
    with pytest.raises(ReservoirError, match=r"cannot replace 1\.0: NormWithActivation has a forw"):
        RobustNorms(space, 0.5)
    assert type(net[0]) is nn.BatchNorm2d  # and the net is as it was


def test_plain_layers_are_replaced_also_a_second_time():
    net = nn.Sequential(
        nn.BatchNorm1d(3), nn.SyncBatchNorm(3), type("Own", (nn.BatchNorm3d,), {})(3)
    )
    for _ in range(2):
        assert len(RobustNorms(ParamSpace(net, norm_affine(net)), 0.5).layers) == 3
