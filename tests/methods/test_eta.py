import copy
import math
from functools import partial

import pytest
import torch
from logit_net import as_image, frozen, logit_method, some_logits

from mmseg_reservoir.methods import Cola, Eata, Eta, RDumb

UNDECIDED = torch.zeros(3, 4)


def selected(logits, average, margin=0.4, d_margin=0.5):
    """Entropies, probabilities and choice of samples, one by one."""
    p = logits.softmax(1)
    entropies = -(p * p.log()).sum(1)
    chosen = []
    for row, h in zip(p, entropies, strict=True):
        cosine = 0.0 if average is None else float(row @ average / (row.norm() * average.norm()))
        chosen.append(float(h) < margin * math.log(4) and cosine < d_margin)
    return entropies, p, torch.tensor(chosen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_filters_loss_and_average_equal_a_few_plain_lines(dtype):
    method = logit_method(Eta, dtype, d_margin=0.5)
    average, passed = None, 0
    for seed in range(4):
        logits = some_logits(seed, dtype=dtype)
        entropies, p, chosen = selected(logits, average)
        assert 0 < chosen.sum() < len(logits)
        prediction, loss = method.loss(logits)
        assert torch.equal(prediction, logits)
        limit = 0.4 * math.log(4)
        expected = (entropies[chosen] / torch.exp(entropies[chosen] - limit)).mean()
        torch.testing.assert_close(loss, expected)
        mean = p[chosen].mean(0)
        average = mean if average is None else 0.9 * average + 0.1 * mean
        torch.testing.assert_close(method.state["mean_prediction"], average)
        passed += int(chosen.sum())
    assert method.counts["selected"] == passed
    assert method.counts["reliable"] > passed


def test_the_weights_are_constants_of_the_loss():
    method, logits = logit_method(Eta), some_logits()
    entropies, _, chosen = selected(logits, None)
    method.backward(method.loss(logits)[1])
    shift = torch.zeros(4, requires_grad=True)
    p = (logits + shift).softmax(1)[chosen]
    weights = torch.exp(0.4 * math.log(4) - entropies[chosen])
    (weights * -(p * p.log()).sum(1)).mean().backward()
    torch.testing.assert_close(method.space.values.grad[4:], shift.grad)


def test_pixels_are_samples():
    flat, image = logit_method(Eta, d_margin=0.5), logit_method(Eta, d_margin=0.5)
    for seed in range(3):
        logits = some_logits(seed)
        assert torch.equal(image.adapt(as_image(logits)), as_image(flat.predict(logits)))
        flat.adapt(logits)
        torch.testing.assert_close(image.space.values, flat.space.values)
    torch.testing.assert_close(image.state["mean_prediction"], flat.state["mean_prediction"])
    assert image.counts == flat.counts


def test_where_no_sample_counts_nothing_changes():
    method = logit_method(Eta)
    method.adapt(some_logits())
    parameters, state = method.space.snapshot(), frozen(method.domain_state())
    prediction, loss = method.loss(UNDECIDED)
    assert loss is None
    assert torch.equal(prediction, method.predict(UNDECIDED))
    method.adapt(UNDECIDED)
    assert torch.equal(method.space.snapshot(), parameters)
    assert frozen(method.domain_state()) == state
    assert method.counts["skipped"] == 1
    assert method.counts["updates"] == 1


def test_the_average_belongs_to_the_domain():
    method = logit_method(Eta, d_margin=0.9)
    first, second = method.domain_state(), method.fresh_domain_state()
    method.adapt(some_logits(0))
    seen = first["mean_prediction"].clone()
    method.load_domain_state(second)
    method.adapt(some_logits(1))
    assert torch.equal(first["mean_prediction"], seen)
    assert not torch.equal(second["mean_prediction"], seen)
    inherited = method.inherit_domain_state(first)
    assert inherited["mean_prediction"] is None
    assert "momentum_buffer" in inherited["optimizer"]
    assert frozen(copy.deepcopy(first)) == frozen(first)


@pytest.mark.parametrize(
    "make", [Eta, RDumb, partial(Cola, threshold=math.inf), partial(Eata, fisher_alpha=0.0)]
)
def test_by_default_it_adapts_to_few_classes_and_to_many(make):
    few, many, strict = (
        logit_method(make, classes=c, optimizer=partial(torch.optim.SGD, lr=1e-3), **options)
        for c, options in ((10, {}), (1000, {}), (10, dict(d_margin=0.05)))
    )
    for seed in range(40):
        for method, classes in ((few, 10), (many, 1000), (strict, 10)):
            method.adapt(some_logits(seed, classes=classes, scale=6.0))
    assert (few.d_margin, many.d_margin, strict.d_margin) == (0.4, 0.05, 0.05)
    assert min(few.counts["updates"], many.counts["updates"]) > 30
    assert strict.counts["updates"] < 10  # ImageNet's value where it does not belong


def test_pixels_too_go_by_the_number_of_classes():
    method = logit_method(Eta)
    method.adapt(as_image(some_logits()))
    assert method.d_margin == 0.4


def test_broken_samples_do_not_count():
    method = logit_method(Eta)
    logits = some_logits()
    logits[0] = float("nan")
    before = method.space.snapshot()
    method.adapt(logits)
    assert torch.equal(method.space.snapshot(), before)
    assert method.rejected == 1
    assert method.state["mean_prediction"] is None
