import pytest
import torch
from logit_net import logit_method, some_logits
from torch.nn.functional import cross_entropy

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Eata, Eta

SOURCE = [some_logits(10), some_logits(11), some_logits(12, count=5)]


def prepared(dtype=torch.float32, **options):
    method = logit_method(Eata, dtype, **options)
    method.prepare(x.to(dtype) for x in SOURCE)
    return method


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fisher_information_is_the_mean_squared_gradient_of_source_batches(dtype):
    expected = torch.zeros(8, dtype=dtype)
    for x in SOURCE:
        x = x.to(dtype)
        scale, shift = torch.ones(4, dtype=dtype), torch.zeros(4, dtype=dtype)
        parameters = [scale.requires_grad_(), shift.requires_grad_()]
        gradients = torch.autograd.grad(cross_entropy(x * scale + shift, x.argmax(1)), parameters)
        expected += torch.cat(gradients).square() / len(SOURCE)
    method = prepared(dtype)
    torch.testing.assert_close(method.fisher, expected)
    assert torch.equal(method.space.values, method.source)


def test_loss_is_etas_and_the_drift_from_the_source_weighted_by_fisher():
    method, eta = prepared(fisher_alpha=7.0), logit_method(Eta)
    for each in (method, eta):
        each.space.load(torch.linspace(0.8, 1.2, 8))
    drift = torch.linspace(0.8, 1.2, 8) - torch.tensor([1.0] * 4 + [0.0] * 4)
    logits = some_logits()
    _, loss = method.loss(logits)
    _, plain = eta.loss(logits)
    torch.testing.assert_close(loss - plain, 7 * (method.fisher * drift**2).sum())

    for each, value in ((method, loss), (eta, plain)):
        each.space.zero_grad()
        assert each.backward(value)
    torch.testing.assert_close(
        method.space.values.grad - eta.space.values.grad, 14 * method.fisher * drift
    )


def test_holds_on_to_the_source():
    free, held = prepared(fisher_alpha=0.0), prepared(fisher_alpha=50.0)
    for seed in range(10):
        free.adapt(some_logits(seed))
        held.adapt(some_logits(seed))
    assert (held.space.values - held.source).norm() < (free.space.values - free.source).norm()


def test_an_empty_filter_updates_nothing_in_spite_of_the_regulariser():
    method = prepared()
    method.space.load(method.source + 0.1)
    assert method.loss(torch.zeros(3, 4))[1] is None


def test_fisher_is_shared_by_all_domains_and_saved_with_the_method():
    method = prepared()
    method.load_domain_state(method.fresh_domain_state())
    assert method.loss(some_logits())[1] is not None
    resumed = logit_method(Eata)
    resumed.load_state_dict(method.state_dict())
    assert torch.equal(resumed.fisher, method.fisher)
    assert "fisher" not in method.domain_state()


def test_without_regulariser_it_is_eta_bit_for_bit():
    eata, eta = logit_method(Eata, fisher_alpha=0.0), logit_method(Eta)
    for seed in range(4):
        assert torch.equal(eata.adapt(some_logits(seed)), eta.adapt(some_logits(seed)))
    assert torch.equal(eata.space.values, eta.space.values)


def test_the_regulariser_goes_by_the_number_of_classes():
    few, many = (logit_method(Eata, classes=classes) for classes in (10, 1000))
    for method, classes in ((few, 10), (many, 1000)):
        assert method.needs_source
        method.prepare([some_logits(classes=classes, scale=6.0)])
        method.adapt(some_logits(1, classes=classes, scale=6.0))
        assert method.counts["updates"] == 1
    assert (few.fisher_alpha, many.fisher_alpha) == (1, 2000)
    same = prepared(fisher_alpha=1.0), prepared()
    for seed in range(4):
        for method in same:
            method.adapt(some_logits(seed))
    assert torch.equal(same[0].space.values, same[1].space.values)
    assert not logit_method(Eata, fisher_alpha=0.0).needs_source


def test_a_broken_source_batch_is_left_out():
    method = logit_method(Eata)
    method.prepare([*SOURCE, torch.full((2, 4), float("nan"))])
    assert torch.equal(method.fisher, prepared().fisher)


def test_mistakes_are_explained():
    with pytest.raises(
        ReservoirError, match=r"source=.* prepare\(source_batches\).*fisher_alpha=0"
    ):
        logit_method(Eata).adapt(some_logits())
    with pytest.raises(ReservoirError, match="no source batch"):
        logit_method(Eata).prepare([])
