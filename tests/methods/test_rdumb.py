import pytest
import torch
from logit_net import frozen, logit_method, some_logits

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Eta, RDumb


def test_is_eta_until_it_forgets_everything():
    rdumb, eta = logit_method(RDumb, reset_every=3), logit_method(Eta)
    for seed in range(3):
        assert torch.equal(rdumb.adapt(some_logits(seed)), eta.adapt(some_logits(seed)))
        assert torch.equal(rdumb.space.values, eta.space.values) == (seed < 2)
    assert torch.equal(rdumb.space.values, rdumb.source)
    assert rdumb.domain_state() == rdumb.fresh_domain_state()
    assert rdumb.counts["resets"] == 1

    again = logit_method(Eta)
    for seed in range(2):
        assert torch.equal(rdumb.adapt(some_logits(seed)), again.adapt(some_logits(seed)))
    assert torch.equal(rdumb.space.values, again.space.values)


def test_every_domain_counts_its_own_batches():
    method = logit_method(RDumb, reset_every=3)
    method.adapt(some_logits(0))
    method.adapt(some_logits(1))
    first = (method.space.snapshot(), method.domain_state())
    method.load(method.source, method.fresh_domain_state())
    method.adapt(some_logits(2))
    second = (method.space.snapshot(), method.domain_state())
    assert (first[1]["batches"], second[1]["batches"]) == (2, 1)
    untouched = frozen(second[1])

    method.load(*first)
    method.adapt(some_logits(3))
    assert torch.equal(method.space.values, method.source)
    assert frozen(second[1]) == untouched
    assert method.inherit_domain_state(second[1])["batches"] == 0


def test_batches_without_update_count_too():
    method = logit_method(RDumb, reset_every=2)
    method.adapt(some_logits())
    method.adapt(torch.zeros(3, 4))
    assert method.counts["skipped"] == method.counts["resets"] == 1
    assert torch.equal(method.space.values, method.source)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_dtype(dtype):
    method = logit_method(RDumb, dtype, reset_every=2)
    for seed in range(3):
        assert method.adapt(some_logits(seed, dtype=dtype)).dtype == dtype
    assert method.state["mean_prediction"].dtype == dtype


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="the method 'eta' never resets"):
        logit_method(RDumb, reset_every=0)
