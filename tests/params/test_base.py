import copy

import pytest
import torch
from norm_model import NormModel
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params.base import ParamSpace
from mmseg_reservoir.params.normalization import use_batch_statistics
from mmseg_reservoir.params.selections import norm_affine


def test_parameters_are_views_of_the_flat_buffer():
    model, x = NormModel().eval(), torch.randn(3, 4)
    before = copy.deepcopy(model)(x)
    space = ParamSpace(model, norm_affine(model))
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    original = space.snapshot()
    space.load(torch.arange(36.0))
    torch.testing.assert_close(model.backbone[1].bias.detach(), torch.arange(6.0, 12.0))
    space.load(original)
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)


def test_snapshot_is_a_copy():
    model = NormModel()
    space = ParamSpace(model, norm_affine(model))
    snapshot = space.snapshot()
    space.load(snapshot + 1)
    torch.testing.assert_close(space.values.detach(), snapshot + 1)


def test_gradients_and_steps_equal_those_of_separate_tensors():
    model, x = NormModel().eval(), torch.randn(3, 4)
    plain = copy.deepcopy(model)
    named = norm_affine(plain, under="backbone")
    plain_optimizer = torch.optim.Adam(named.values(), lr=0.1)
    space = ParamSpace(model, norm_affine(model, under="backbone"))
    optimizer = torch.optim.Adam([space.values], lr=0.1)
    for _ in range(3):
        plain_optimizer.zero_grad()
        plain(x).square().sum().backward()
        plain_optimizer.step()
        space.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    expected = torch.cat([p.detach().reshape(-1) for p in named.values()])
    torch.testing.assert_close(space.values.detach(), expected, rtol=0, atol=0)


def test_moving_the_model_afterwards_is_reported():
    model = NormModel()
    space = ParamSpace(model, norm_affine(model))
    model.double()
    for use in (lambda: space.load(space.snapshot()), space.zero_grad):
        with pytest.raises(ReservoirError, match=r"moved, cast, copied .* do that before"):
            use()


def test_a_model_can_belong_to_one_space_only():
    model = NormModel()
    first = ParamSpace(model, norm_affine(model))
    second = ParamSpace(model, norm_affine(model))
    second.zero_grad()
    with pytest.raises(ReservoirError, match="given to another adaptation"):
        first.zero_grad()


def test_gradients_that_a_caller_took_away_come_back():
    model, x = NormModel(), torch.randn(5, 4)
    space = ParamSpace(model, norm_affine(model))
    model(x).square().sum().backward()
    expected = space.values.grad.clone()
    model.zero_grad()  # sets them to None
    space.zero_grad()
    model(x).square().sum().backward()
    assert expected.abs().sum() > 0
    assert torch.equal(space.values.grad, expected)


def test_mixed_dtypes_are_an_error():
    model = NormModel()
    model.head.double()
    with pytest.raises(ReservoirError, match=r"float32.*float64"):
        ParamSpace(model, norm_affine(model))


def test_batch_statistics_replace_running_ones():
    net = nn.Sequential(nn.BatchNorm1d(4)).eval()
    x = torch.randn(64, 4) * 3 + 5
    torch.testing.assert_close(net(x), x, rtol=1e-4, atol=1e-4)  # running: mean 0, variance 1
    use_batch_statistics(net)
    torch.testing.assert_close(net(x).mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(net(x).var(0, unbiased=False), torch.ones(4), atol=1e-4, rtol=0)


def test_autocast_sees_new_values():
    net = nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2), nn.Linear(2, 2))
    space = ParamSpace(net, dict(net[2].named_parameters()))
    x = torch.ones(1, 2)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        before = net(x)
        space.load(space.snapshot() + 10)
        assert (net(x) - before).abs().min() > 1


def test_ensemble_equals_the_naive_weighted_sum_per_tensor():
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Conv2d(1, 2, 2))
    space = ParamSpace(net, dict(net.named_parameters()))
    torch.manual_seed(0)
    experts = torch.randn(3, len(space))
    weights = torch.tensor([0.2, 0.5, 0.3])
    with space.ensembled(experts, weights):
        for i, parameter in enumerate(net.parameters()):
            naive = sum(w * space.split(e)[i] for w, e in zip(weights, experts, strict=True))
            torch.testing.assert_close(parameter.detach(), naive)


def test_at_shows_other_values_and_brings_the_own_ones_back():
    net = nn.LayerNorm(4)
    space = ParamSpace(net, dict(net.named_parameters()))
    with space.at(torch.full((8,), 3.0)):
        assert net.weight.tolist() == [3, 3, 3, 3]
    assert net.weight.tolist() == [1, 1, 1, 1]


def test_carried_buffers_are_values_that_no_gradient_moves():
    model, x = NormModel().eval(), torch.randn(3, 4)
    space = ParamSpace(model, norm_affine(model))
    before, adapting = model(x), len(space)
    norm = model.head[0]
    space.carry({"head.0.running_mean": norm.running_mean, "head.0.running_var": norm.running_var})
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert (space.adapting, len(space)) == (adapting, adapting + 12)
    assert space.names[-1] == "head.0.running_var"
    space.zero_grad()
    model(x).square().sum().backward()
    assert space.values.grad[:adapting].any()
    assert not space.values.grad[adapting:].any()
    source = space.snapshot()
    norm.running_mean.add_(1)  # what the model writes is in the values
    torch.testing.assert_close(space.values[adapting : adapting + 6].detach(), torch.ones(6))
    other = space.snapshot()
    with space.at(source):
        assert not norm.running_mean.any()
    with space.ensembled(torch.stack([source, other]), torch.tensor([0.75, 0.25])):
        torch.testing.assert_close(norm.running_mean, torch.full((6,), 0.25))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_model_that_is_broken_from_the_start_is_refused(value):
    model = NormModel()
    model.backbone[2].bias.data[1] = value  # a part that does not adapt counts, too
    with pytest.raises(
        ReservoirError, match=r"NaN or infinite values, first in 'backbone\.2\.bias'"
    ):
        ParamSpace(model, norm_affine(model))


def test_a_buffer_that_is_a_mask_may_hold_minus_infinity():
    model = NormModel()
    model.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    ParamSpace(model, norm_affine(model))
    model.mask[0] = torch.nan
    with pytest.raises(ReservoirError, match="first in 'mask'"):
        ParamSpace(model, norm_affine(model))
