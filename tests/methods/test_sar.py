import copy
import math
from functools import partial

import pytest
import torch
from logit_net import as_image, frozen, logit_method, some_logits

from mmseg_reservoir.methods import Sar

LIMIT = 0.4 * math.log(4)
NEVER = 0.0  # a loss below which no reset happens


def plain_entropies(logits, theta):
    p = (logits * theta[:4] + theta[4:]).softmax(1)
    return -(p * p.log()).sum(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_a_few_plain_lines(dtype):
    method = logit_method(Sar, dtype, rho=0.5, reset_below=NEVER)
    theta = torch.tensor([1.0] * 4 + [0.0] * 4, dtype=dtype)
    momentum, average = torch.zeros_like(theta), None
    lost = 0
    for seed in range(5):
        logits = some_logits(seed, dtype=dtype)
        here = theta.clone().requires_grad_()
        first = plain_entropies(logits, here)
        reliable = first < LIMIT
        (gradient,) = torch.autograd.grad(first[reliable].mean(), here)
        there = (theta + 0.5 * gradient / gradient.norm()).requires_grad_()
        second = plain_entropies(logits, there)
        still = reliable & (second < LIMIT)
        lost += int(reliable.sum() - still.sum())
        loss = second[still].mean()
        momentum = 0.9 * momentum + torch.autograd.grad(loss, there)[0]
        theta = theta - 0.1 * momentum
        average = loss if average is None else 0.9 * average + 0.1 * loss

        method.adapt(logits)
        torch.testing.assert_close(method.space.snapshot(), theta)
        torch.testing.assert_close(method.state["loss"], average.detach())
    assert lost > 0  # the second filter had something to do
    assert method.counts == {
        "updates": 5,
        "skipped": 0,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
        "resets": 0,
    }


def test_pixels_are_samples():
    flat, image = logit_method(Sar, reset_below=NEVER), logit_method(Sar, reset_below=NEVER)
    for seed in range(3):
        logits = some_logits(seed)
        flat.adapt(logits)
        image.adapt(as_image(logits))
        torch.testing.assert_close(image.space.values, flat.space.values)


def test_where_no_sample_is_reliable_nothing_changes():
    method = logit_method(Sar, reset_below=NEVER)
    method.adapt(some_logits())
    parameters, state = method.space.snapshot(), frozen(method.domain_state())
    assert method.loss(torch.zeros(3, 4))[1] is None
    method.adapt(torch.zeros(3, 4))
    assert torch.equal(method.space.snapshot(), parameters)
    assert frozen(method.domain_state()) == state
    assert (method.counts["updates"], method.counts["skipped"]) == (1, 1)


def test_where_no_sample_stays_reliable_nothing_changes():
    # One sample just below the limit, and a neighbourhood in which it is above.
    logits = torch.tensor([[3.0, 0.0, 0.0, 0.0]])
    assert plain_entropies(logits, torch.tensor([1.0] * 4 + [0.0] * 4)) < LIMIT
    method = logit_method(Sar, rho=2.0, reset_below=NEVER)
    method.adapt(logits)
    assert torch.equal(method.space.values, method.source)
    assert method.domain_state() == method.fresh_domain_state()
    assert (method.counts["updates"], method.counts["skipped"]) == (0, 1)


@pytest.mark.parametrize("broken_pass", [1, 2])
def test_a_pass_that_is_not_finite_changes_nothing(broken_pass):
    method = logit_method(Sar, reset_below=NEVER)
    forward, passes = method.forward, []

    def breaking(inputs):
        passes.append(1)
        logits = forward(inputs)
        if len(passes) == broken_pass:
            logits = logits + (logits - logits.detach()).abs().sqrt()  # zero, of infinite slope
        return logits

    method.forward = breaking
    method.adapt(some_logits())
    assert len(passes) == broken_pass
    assert torch.equal(method.space.values, method.source)
    assert method.domain_state() == method.fresh_domain_state() | {"rejected": 1}
    assert method.counts == {
        "updates": 0,
        "skipped": 0,
        "not_finite": 1,
        "rollbacks": 0,
        "restarts": 0,
        "resets": 0,
    }


def collapse(method):
    """Adapt once to very decided samples: their small loss is the sign of a collapse."""
    return method.adapt(some_logits(scale=30.0))


def test_a_collapsed_model_starts_from_the_source_again():
    method = logit_method(Sar)
    logits = collapse(method)
    assert torch.equal(logits, some_logits(scale=30.0))
    assert method.counts["resets"] == 1
    assert torch.equal(method.space.values, method.source)
    assert method.domain_state() == method.fresh_domain_state()


def test_average_loss_and_momentum_belong_to_the_domain():
    method = logit_method(Sar, reset_below=NEVER)
    first, second = method.domain_state(), method.fresh_domain_state()
    method.adapt(some_logits(0))
    seen = frozen(method.domain_state())
    method.load(method.source, second)
    method.adapt(some_logits(1))
    assert frozen(first) == seen
    assert frozen(method.domain_state()) != seen

    inherited = method.inherit_domain_state(first)
    assert inherited["loss"] is None
    assert frozen(inherited["optimizer"]) == seen["optimizer"]
    assert inherited["optimizer"] is not first["optimizer"]


def test_published_momentum_is_shared_and_survives_resets_and_saving():
    method = logit_method(Sar, published_momentum=True, reset_below=NEVER)
    first = method.domain_state()
    method.adapt(some_logits(0))
    second, third = method.fresh_domain_state(), method.inherit_domain_state(first)
    assert first["optimizer"] is second["optimizer"] is third["optimizer"]
    assert second["loss"] is third["loss"] is None
    method.load(method.source, second)
    method.adapt(some_logits(1))
    momentum = first["optimizer"]["momentum_buffer"].clone()
    assert torch.equal(second["optimizer"]["momentum_buffer"], momentum)
    method.reset()
    assert torch.equal(method.domain_state()["optimizer"]["momentum_buffer"], momentum)

    resumed = logit_method(Sar, published_momentum=True, reset_below=NEVER)
    states = copy.deepcopy([first, second])
    resumed.load(method.source, states[0])
    resumed.adapt(some_logits(2))
    assert states[0]["optimizer"] is states[1]["optimizer"]
    assert not torch.equal(states[1]["optimizer"]["momentum_buffer"], momentum)


def test_the_optimizer_is_injected():
    method = logit_method(Sar, optimizer=partial(torch.optim.Adam, lr=0.1), reset_below=NEVER)
    method.adapt(some_logits())
    assert "exp_avg" in method.domain_state()["optimizer"]
