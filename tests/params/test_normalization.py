import copy
import logging

import pytest
import torch
from small_net import make_classifier
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params.normalization import (
    BlendedBatchNorm,
    learning,
    read_batch_share,
    set_batch_share,
    use_batch_statistics,
)

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


def normalised(norm, x, share):
    """The plain way, and the mean and variance that it went by."""
    rows = x.movedim(1, -1).reshape(-1, 3)
    mean = (1 - share) * norm.running_mean + share * rows.mean(0)
    var = (1 - share) * norm.running_var + share * rows.var(0, unbiased=False)
    result = (rows - mean) / (var + norm.eps).sqrt()
    if norm.affine:
        result = result * norm.weight.detach() + norm.bias.detach()
    return result.reshape(x.movedim(1, -1).shape).movedim(-1, 1), mean, var


# What a user may write.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("running", 0.0),
        ("batch", 1.0),
        (0, 0.0),
        (0.25, 0.25),
        (1, 1.0),
    ],
)
def test_reads_what_a_user_writes(value, expected):
    assert read_batch_share(value, default="running") == expected


def test_none_is_the_default():
    assert read_batch_share(None, default="running") == 0
    assert read_batch_share(None, default="batch") == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("bacth", r"'bacth' \(did you mean 'batch'\?\); valid: batch, running, .* number from 0"),
        (True, "statistics cannot be True; .* number from 0 to 1"),
        (1.5, r"share of the batch must be in \[0, 1\], got 1.5"),
        (float("nan"), r"must be in \[0, 1\], got nan"),
        (dict(share=0.1), "cannot be {'share': 0.1}; valid: batch, running, .* number from 0"),
        (
            dict(share=0.1, per_expert=True),
            r"per_expert was removed. Write statistics=\"running\" and .*preset=\"robust\"",
        ),
    ],
)
def test_explains_what_it_cannot_read(value, message):
    with pytest.raises(ReservoirError, match=message):
        read_batch_share(value, default="running")


# What the layers do.


def test_running_statistics_leave_the_model_alone():
    net = make_classifier()
    expected, layers = net(X), list(net)
    set_batch_share(net, 0.0)
    assert torch.equal(net(X), expected)
    assert list(net) == layers


def test_batch_statistics_are_tents():
    one, other, trained = (nn.Sequential(some_norm()) for _ in range(3))
    set_batch_share(one, 1.0)
    use_batch_statistics(other)
    assert torch.equal(one(X), other(X))
    trained.train()
    assert torch.equal(one(X), trained(X))
    assert one[0].running_mean is None


@pytest.mark.parametrize(
    ("cls", "x"),
    [(nn.BatchNorm2d, X), (nn.BatchNorm1d, X[:, :, 0, 0]), (nn.BatchNorm1d, X[..., 0])],
)
@pytest.mark.parametrize("affine", [True, False])
def test_a_share_blends_mean_and_variance_in_every_pass(cls, x, affine):
    net = nn.Sequential(some_norm(cls, affine=affine))
    before = copy.deepcopy(net.state_dict())
    expected, _, _ = normalised(net[0], x, 0.3)
    set_batch_share(net, 0.3)
    torch.testing.assert_close(net(x).detach(), expected)
    with torch.no_grad():
        torch.testing.assert_close(net(x), expected)
    after = net.state_dict()
    assert set(after) == set(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_learning_makes_the_blend_the_running_statistics():
    norm = some_norm()
    expected, mean, var = normalised(norm, X, 0.3)
    layer = BlendedBatchNorm(norm, 0.3)
    with learning([layer]):
        torch.testing.assert_close(layer(X).detach(), expected)
    torch.testing.assert_close(layer.running_mean, mean)
    torch.testing.assert_close(layer.running_var, var)
    layer(X)
    torch.testing.assert_close(layer.running_mean, mean)


def test_one_that_blends_only_to_learn_is_otherwise_the_layer_that_it_replaces():
    norm = some_norm()
    expected = norm(X)
    blended, _, _ = normalised(norm, X, 0.3)
    layer = BlendedBatchNorm(norm, 0.3, always=False)
    torch.testing.assert_close(layer(X), expected)
    with learning([layer]):
        torch.testing.assert_close(layer(X).detach(), blended)


def test_the_gradient_goes_through_the_share_of_the_batch():
    layer = BlendedBatchNorm(some_norm(), 1.0)  # a share of 1 is ordinary batch normalisation
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    weights = torch.randn(X.shape, generator=torch.Generator().manual_seed(1))
    (layer(x) * weights).sum().backward()
    norm = some_norm().train()
    (norm(y) * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_maps_of_half_precision_stay_so():
    layer = BlendedBatchNorm(some_norm(), 0.3)
    expected = layer(X)
    found = layer(X.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)


# What cannot be blended.


class NormWithActivation(nn.BatchNorm2d):
    """As timm's BatchNormAct2d."""

    def forward(self, x):
        return super().forward(x).relu()


def test_a_layer_that_does_more_than_normalise_is_refused():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(NormWithActivation(3)))
    with pytest.raises(
        ReservoirError, match=r"cannot replace 1\.0: NormWithActivation has a custom forw"
    ):
        set_batch_share(net, 0.5)
    assert type(net[0]) is nn.BatchNorm2d  # and the net is as it was
    set_batch_share(net, 1.0)
    assert (net(X) >= 0).all()


def test_a_net_that_knows_no_statistics_of_the_source_is_refused():
    net = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False))
    with pytest.raises(ReservoirError, match=r"but 0 keeps none: take a net that does"):
        set_batch_share(net, 0.5)


def test_a_net_without_batch_normalisation_is_told(caplog):
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    with caplog.at_level(logging.WARNING):
        for share in (0.0, 1.0):
            set_batch_share(net, share)
        assert not caplog.messages
        set_batch_share(net, 0.1)
    assert "Sequential has no BatchNorm" in caplog.text


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_one_value_per_channel_is_normalised_by_the_source(share):
    norm = nn.BatchNorm2d(4).eval()
    norm.running_mean.uniform_()
    norm.running_var.uniform_(1, 2)
    net, one = nn.Sequential(norm), torch.randn(1, 4, 1, 1)
    expected, many = norm(one), torch.randn(2, 4, 3, 3)
    before = norm(many)
    set_batch_share(net, share)
    torch.testing.assert_close(net(one), expected)
    assert not torch.allclose(net(many), before)
    if share == 1:
        torch.testing.assert_close(net(many).mean(dim=(0, 2, 3)), torch.zeros(4), atol=1e-6, rtol=0)
