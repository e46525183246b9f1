import logging
from functools import partial

import pytest
import torch
from small_net import make_method, make_router
from small_vit import make_vit
from torch.nn.functional import cross_entropy

from mmseg_reservoir.core import ReservoirPipeline, StyleEncoder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import METHODS, AdaptationMethod, Tent, find_method, register_method
from mmseg_reservoir.prompts import prompt_space


@pytest.fixture
def toy():
    @register_method("toy")
    class Sharpen(AdaptationMethod):
        """Cross-entropy with the model's own hard labels, counting batches per domain."""

        def fresh_domain_state(self):
            return super().fresh_domain_state() | {"batches": 0}

        def loss(self, inputs):
            self.state["batches"] += 1
            logits = self.forward(inputs)
            return logits, cross_entropy(logits, logits.argmax(1))

    yield Sharpen
    del METHODS["toy"]


def test_a_new_method_gets_the_reservoir_and_resuming_for_free(toy, stream):
    def make():
        encoder = StyleEncoder("seeded")
        router = make_router(encoder(stream[0]), tau=5.0)
        return ReservoirPipeline(make_method(find_method("toy")), router, encoder)

    pipeline = make()
    outcomes = [pipeline.step(x) for x in stream]
    routed = torch.bincount(torch.tensor([o.route.index for o in outcomes]))
    counted = [pipeline.reservoir.checkout(i)[1]["batches"] for i in range(outcomes[-1].k)]
    assert counted == routed.tolist()
    assert len(counted) > 1

    resumed = make()
    resumed.load_state_dict(pipeline.state_dict())
    assert torch.equal(resumed.step(stream[0]).logits, pipeline.step(stream[0]).logits)


def test_prediction_is_from_before_the_update(stream):
    method = make_method()
    expected = method.predict(stream[0])
    assert torch.equal(method.adapt(stream[0]), expected)
    assert not torch.equal(method.predict(stream[0]), expected)


def test_adapts_inside_no_grad(stream):
    method = make_method()
    with torch.no_grad():
        method.adapt(stream[0])
    assert method.counts == {"updates": 1, "skipped": 0, "not_finite": 0}


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_an_update_that_is_not_finite_is_skipped_counted_and_logged(stream, caplog, broken):
    class Broken(Tent):
        def loss(self, inputs):
            logits, loss = super().loss(inputs)
            if broken == "loss":
                return logits, loss * float("nan")
            return logits, (loss - loss.detach()).abs().sqrt()  # zero, with infinite slope

    method = make_method(Broken)
    before = method.space.snapshot()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            method.adapt(stream[0])
    assert torch.equal(method.space.snapshot(), before)
    assert method.domain_state() == {"optimizer": {}}
    assert method.counts == {"updates": 0, "skipped": 0, "not_finite": 2}
    assert f"the {broken} is not finite (2 so far)" in caplog.text


def test_domain_state_is_swapped_by_reference(stream):
    method = make_method()
    first = method.domain_state()
    method.adapt(stream[0])
    moments = method.domain_state()["optimizer"]["exp_avg"]
    other = method.fresh_domain_state()
    method.load_domain_state(other)
    method.adapt(stream[1])
    assert method.domain_state() is other
    method.load_domain_state(first)
    assert method.domain_state()["optimizer"]["exp_avg"] is moments
    assert first["optimizer"]["step"] == other["optimizer"]["step"] == 1


def test_registry_lists_what_it_knows():
    with pytest.raises(ReservoirError, match=r"'tnet' \(did you mean 'tent'\?\); valid: .*source"):
        find_method("tnet")
    with pytest.raises(ValueError, match="'tent' is taken"):

        @register_method("tent")
        class Other(Tent):
            pass


def make_prompts(seed, count=3):
    net = make_vit()
    space = prompt_space(net, count=count, seed=seed)
    return Tent(net, space, partial(torch.optim.SGD, lr=0.1))


def test_a_loaded_source_is_the_one_that_prompts_know(stream):
    one, other = make_prompts(seed=0), make_prompts(seed=1)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.source, one.source)
    with one.space.hidden():
        expected = one.predict(stream[0])
    with other.space.at(other.source):  # stands for a model without prompts
        assert torch.equal(other.predict(stream[0]), expected)


def test_a_state_of_other_parameters_is_refused():
    with pytest.raises(ReservoirError, match="adapts 36 numbers, this method 24: use the same"):
        make_prompts(0, count=2).load_state_dict(make_prompts(0).state_dict())
