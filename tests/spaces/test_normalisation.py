import copy
import logging
from functools import partial

import pytest
import torch
from small_net import make_classifier, make_method
from torch import nn

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.spaces import ParamSpace, norm_affine
from mmseg_reservoir.spaces.norm_statistics import Statistics
from mmseg_reservoir.spaces.normalisation import BlendedBatchNorm, learning, use_batch_statistics

X = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1
PER_EXPERT = dict(share=0.2, per_expert=True)


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
        ("running", Statistics(0.0)),
        ("batch", Statistics(1.0)),
        (0, Statistics(0.0)),
        (0.25, Statistics(0.25)),
        (1, Statistics(1.0)),
        (dict(share=0.1), Statistics(0.1)),
        (dict(share=0.1, per_expert=True), Statistics(0.1, per_expert=True)),
        (Statistics(0.3), Statistics(0.3)),
    ],
)
def test_reads_what_a_user_writes(value, expected):
    assert Statistics.of(value, default="running") == expected


def test_none_is_the_default():
    assert Statistics.of(None, default="running") == Statistics(0.0)
    assert Statistics.of(None, default="batch") == Statistics(1.0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("bacth", r"'bacth' \(did you mean 'batch'\?\); valid: batch, running, .* number from 0"),
        (True, r"statistics cannot be True.*dict\(share=..., per_expert=True\)"),
        (1.5, r"share of the batch must be in \[0, 1\], got 1.5"),
        (float("nan"), r"must be in \[0, 1\], got nan"),
        (dict(share="much"), "statistics.share must be of type float, got 'much'"),
        (dict(shares=0.1), r"statistics has no option 'shares' \(did you mean 'share'\?\)"),
        (dict(per_expert=True), "above 0 and below 1, got 0.0: take 0.1, or leave out per_expert"),
        (dict(share=1.0, per_expert=True), "above 0 and below 1, got 1.0"),
    ],
)
def test_explains_what_it_cannot_read(value, message):
    with pytest.raises(ReservoirError, match=message):
        Statistics.of(value, default="running")


# What the layers do.


def test_running_statistics_leave_the_model_alone():
    net = make_classifier()
    expected, layers = net(X), list(net)
    Statistics.of("running", "batch").apply(net)
    assert torch.equal(net(X), expected)
    assert list(net) == layers


def test_batch_statistics_are_tents():
    one, other, trained = (nn.Sequential(some_norm()) for _ in range(3))
    Statistics.of("batch", "running").apply(one)
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
    Statistics(0.3).apply(net)
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
    with learning([layer], when=torch.is_grad_enabled), torch.no_grad():
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
    with pytest.raises(ReservoirError, match=r"cannot replace 1\.0: NormWithActivation has a forw"):
        Statistics(0.5).apply(net)
    assert type(net[0]) is nn.BatchNorm2d  # and the net is as it was
    Statistics(1.0).apply(net)
    assert (net(X) >= 0).all()


def test_a_net_that_knows_no_statistics_of_the_source_is_refused():
    net = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False))
    with pytest.raises(ReservoirError, match=r"but 0 keeps none: take a net that does"):
        Statistics(0.5).apply(net)


def test_a_net_without_batch_normalisation_is_told(caplog):
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    space = ParamSpace(net, norm_affine(net))
    with caplog.at_level(logging.WARNING):
        for value in ("running", "batch"):
            Statistics.of(value, "batch").apply(net)
        assert not caplog.messages
        Statistics(0.1, per_expert=True).apply(net)
    Statistics(0.1, per_expert=True).carry(space)
    assert len(space) == 8
    assert "Sequential has no BatchNorm" in caplog.text


# Statistics that belong to an expert.


def test_only_those_of_an_expert_become_part_of_the_space():
    for value in ("running", "batch", 0.2):
        assert len(make_method(statistics=value).space.carried) == 0
    space = make_method(statistics=PER_EXPERT).space
    assert space.names[-2:] == ["4.running_mean", "4.running_var"]
    assert len(space.carried) == 16


def test_experts_keep_their_own_statistics(stream):
    pipeline = ReservoirPipeline(make_method(statistics=PER_EXPERT), OracleRouter(4))
    adapting = pipeline.method.space.adapting
    for _ in range(3):
        pipeline.step(stream[0], domain="fog")
    kept = pipeline.reservoir.checkout(1)[0].clone()
    for _ in range(3):
        pipeline.step(stream[1], domain="night")
    fog, night = (pipeline.reservoir.checkout(i)[0] for i in (1, 2))
    assert torch.equal(fog, kept)
    assert not torch.isclose(fog[adapting:], night[adapting:]).any()

    weights = torch.tensor([0.2, 0.5, 0.3])
    with pipeline.method.space.ensembled(pipeline.reservoir.experts, weights):
        found = pipeline.method.space.model[4].running_mean.clone()
    means = pipeline.reservoir.experts[:, adapting : adapting + 8]
    torch.testing.assert_close(found, weights @ means)

    fresh = make_method(statistics=PER_EXPERT)
    assert torch.equal(pipeline.predict_source(stream[0]), fresh.predict(stream[0]))


def test_a_stream_goes_on_where_a_saved_one_was(stream):
    make = partial(make_method, statistics=PER_EXPERT)
    one, other = (ReservoirPipeline(make(), OracleRouter(4)) for _ in range(2))
    for x in stream[:4]:
        one.step(x, domain="fog")
    other.load_state_dict(one.state_dict())
    for x in stream[4:]:
        expected = one.step(x, domain="fog").logits
        assert torch.equal(other.step(x, domain="fog").logits, expected)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_one_value_per_channel_is_normalised_by_the_source(share):
    norm = nn.BatchNorm2d(4).eval()
    norm.running_mean.uniform_()
    norm.running_var.uniform_(1, 2)
    net, one = nn.Sequential(norm), torch.randn(1, 4, 1, 1)
    expected, many = norm(one), torch.randn(2, 4, 3, 3)
    before = norm(many)
    Statistics(share).apply(net)
    torch.testing.assert_close(net(one), expected)
    assert not torch.allclose(net(many), before)
    if share == 1:
        torch.testing.assert_close(net(many).mean(dim=(0, 2, 3)), torch.zeros(4), atol=1e-6, rtol=0)
