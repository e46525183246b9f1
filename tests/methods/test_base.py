import logging
from functools import partial

import pytest
import torch
from logit_net import logit_method, some_logits
from small_net import make_method, make_router
from small_vit import make_vit
from torch.nn.functional import cross_entropy

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.core.change import Change
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import (
    AdaptationMethod,
    Becotta,
    Eata,
    Eta,
    Norm,
    RDumb,
    Roid,
    Rotta,
    Sar,
    Source,
    Tent,
)
from mmseg_reservoir.params.prompt import prompt_space
from mmseg_reservoir.registry import find, register, table
from mmseg_reservoir.style import StyleEncoder


@pytest.fixture
def toy():
    @register("method", "toy")
    class Sharpen(AdaptationMethod):
        """Cross-entropy with the model's own hard labels, counting batches per domain."""

        def fresh_domain_state(self):
            return super().fresh_domain_state() | {"batches": 0}

        def loss(self, inputs):
            self.state["batches"] += 1
            logits = self.forward(inputs)
            return logits, cross_entropy(logits, logits.argmax(1))

    yield Sharpen
    del table("method")["toy"]


def test_a_new_method_gets_the_reservoir_and_resuming_for_free(toy, stream):
    def make():
        encoder = StyleEncoder("seeded")
        router = make_router(encoder(stream[0]), tau=5.0)
        return ReservoirPipeline(make_method(find("method", "toy")), router, encoder)

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
    assert method.counts == {
        "updates": 1,
        "skipped": 0,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }


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
    assert method.domain_state() == {"optimizer": {}, "rejected": 2}
    assert method.counts == {
        "updates": 0,
        "skipped": 0,
        "not_finite": 2,
        "rollbacks": 0,
        "restarts": 0,
    }
    assert f"the {broken} is not finite (2 so far)" in caplog.text


class Picky(AdaptationMethod):
    """Learns from batches of positive mean only."""

    filter_options = ("threshold",)
    threshold = 0.5

    def loss(self, inputs):
        logits = self.forward(inputs)
        return logits, logits.mean() if inputs.mean() > self.threshold else None


def adapted(cls, batches, **options):
    method = logit_method(cls, optimizer=partial(torch.optim.SGD, lr=0.0), **options)
    for x in batches:
        method.adapt(x)
    return method


NOTHING, SOMETHING = torch.zeros(2, 4), torch.ones(2, 4)


def test_a_method_that_selects_almost_nothing_says_so_once(caplog):
    adapted(Picky, [SOMETHING] + 300 * [NOTHING])
    (warning,) = caplog.messages
    assert warning.startswith(
        "Picky hardly adapts: its filter selected samples in 1 of the last 100 batches (1.0 %)"
    )
    assert warning.endswith("Check threshold=0.5")


def test_a_method_that_stops_selecting_says_so(caplog):
    method = adapted(Picky, 500 * [SOMETHING] + 98 * [NOTHING])
    assert not caplog.messages
    method.adapt(NOTHING)
    assert "hardly adapts" in caplog.text


@pytest.mark.parametrize("each", [1, 20])
def test_a_method_that_selects_a_little_is_silent(caplog, each):
    adapted(Picky, 10 * ([SOMETHING] + each * [NOTHING]))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("cls", "options", "hint"),
    [
        (Eta, dict(margin=1e-9), "Check d_margin=0.4, margin=1e-09"),
        (Eata, dict(margin=1e-9, fisher_alpha=0.0), "Eata hardly adapts"),
        (RDumb, dict(margin=1e-9, reset_every=10), "RDumb hardly adapts"),
        (Sar, dict(margin=1e-9), "Check margin=1e-09"),
        (Becotta, dict(margin=1e-9), "Check margin=1e-09, confidence=0.69"),
    ],
)
def test_filters_name_the_options_to_look_at(caplog, cls, options, hint):
    adapted(cls, 100 * [some_logits()], **options)
    assert hint in caplog.text
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("cls", [Source, Norm, Tent, Roid])
def test_methods_that_select_nothing_by_design_are_silent(caplog, cls):
    adapted(cls, 120 * [some_logits()])
    assert not caplog.messages


def test_a_memory_that_waits_is_silent(caplog):
    method = make_method(Rotta, supports="images", update_every=10**6)
    for _ in range(120):
        method.adapt(torch.rand(1, 3, 8, 8))
    assert method.counts["skipped"] == 120
    assert not caplog.messages


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
        find("method", "tnet")
    with pytest.raises(ReservoirError, match="method 'tent' is already registered"):

        @register("method", "tent")
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


def test_the_change_of_one_judged_batch_is_known_without_another_look(stream):
    method = make_method()
    version = method.space.version
    assert method.change_since(version) is None
    method.adapt(stream[0])
    assert method.change_since(version) == Change(moved=True, at_source=False)
    between = method.space.version
    method.adapt(stream[1])
    assert method.change_since(version) is None  # two batches
    assert method.change_since(between) is not None
    method.reset()
    assert method.change_since(between) is None
