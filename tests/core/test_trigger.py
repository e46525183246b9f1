"""An expert that rests predicts what it would have, in one pass, and is as it was afterwards."""

import io
import math
from functools import partial

import pytest
import torch
from logit_net import logit_method, some_logits
from small_net import make_method
from torch.nn.functional import cross_entropy

from mmseg_reservoir.core import (
    EveryTrigger,
    EvidencePooling,
    FirstVisitTrigger,
    LabelGuard,
    ReservoirPipeline,
    SettledTrigger,
)
from mmseg_reservoir.core.route import Route
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import RDumb, Rotta, Tent
from mmseg_reservoir.methods.common.mean_teacher import MeanTeacher
from mmseg_reservoir.registry import table
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.snapshot import load_reservoir, save_reservoir

TRIGGERS = {
    "every": EveryTrigger,
    "first_visit": FirstVisitTrigger,
    "settled": partial(SettledTrigger, first=3, probe=4),
}
all_triggers = pytest.mark.parametrize("name", TRIGGERS)


class Pupil(MeanTeacher):
    """A student that learns the labels of its teacher."""

    def loss(self, inputs):
        prediction = self.predict(inputs)
        self.take_student()
        return prediction, cross_entropy(self.forward(inputs), prediction.argmax(1))


def make(trigger=None, cls=Tent, lr=0.5, **options):
    optimizer = partial(torch.optim.SGD, lr=lr, momentum=0.5)
    more = {"momentum": 0.5} if cls is Pupil else {}
    method = logit_method(cls, torch.float64, optimizer, **more)
    return ReservoirPipeline(method, OracleRouter(5), init="source", trigger=trigger, **options)


def follow(pipeline, domains, first=0):
    """Step through these domains, a new batch each; the predictions."""
    return [
        pipeline.step(some_logits(seed, dtype=torch.float64), domain=domain).logits
        for seed, domain in enumerate(domains, start=first)
    ]


def updates_of(pipeline, domains):
    """At which batches there was an update."""
    made = []
    for seed, domain in enumerate(domains):
        before = pipeline.method.counts["updates"]
        pipeline.step(some_logits(seed, dtype=torch.float64), domain=domain)
        made.append(pipeline.method.counts["updates"] - before)
    return made


def watch_passes(pipeline):
    """All forward passes from now on: whether each had gradients."""
    passes, forward = [], pipeline.method.forward

    def counted(inputs):
        passes.append(torch.is_grad_enabled())
        return forward(inputs)

    pipeline.method.forward = counted
    return passes


def test_all_triggers_are_tested_here():
    assert TRIGGERS.keys() == table("trigger").keys()


# Which batches.


def test_every_nth_batch_of_each_expert():
    assert updates_of(make(EveryTrigger(3)), "aaabaabab") == [1, 0, 0, 1, 1, 0, 0, 0, 0]
    assert updates_of(make(EveryTrigger(1)), "aab") == [1, 1, 1]


def test_only_in_the_first_visit():
    assert updates_of(make(FirstVisitTrigger()), "aabbaab") == [1, 1, 1, 1, 0, 0, 0]
    assert updates_of(make(FirstVisitTrigger(visits=2)), "aabbaaba") == [1] * 7 + [0]
    assert updates_of(make(FirstVisitTrigger(batches=3)), "aabbaab") == [1, 1, 1, 1, 1, 0, 1]


def settled(losses, **options):
    """At which batches of one expert, whose predictions have these entropies, it adapts."""
    trigger, due = SettledTrigger(**options), []
    for loss in losses:
        due.append(trigger.is_due(0))
        trigger.note(0, logits_of_entropy(loss))
    return due


def logits_of_entropy(loss):
    """Two classes, of which one has the probability that gives this entropy."""
    low, high = 0.5, 1 - 1e-12
    for _ in range(40):
        p = (low + high) / 2
        value = -p * math.log(p) - (1 - p) * math.log(1 - p)
        low, high = (p, high) if value > loss else (low, p)
    return torch.tensor([[math.log(low), math.log(1 - low)]])


def around(mean, count, seed=0):
    noise = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return (mean + 0.03 * noise).clamp(0.01, 0.68).tolist()


def test_who_has_settled_rests_but_for_probes():
    due = settled(around(0.4, 400), first=8, probe=10)
    assert all(due[:8])
    assert 0.1 <= sum(due[100:]) / 300 < 0.2  # a tenth, and where chance seems a change
    assert all(any(due[i : i + 10]) for i in range(390))


def test_a_loss_that_falls_is_worth_updates():
    falling = [0.6 - 0.004 * i for i in range(100)]
    noisy = [a + b - 0.4 for a, b in zip(falling, around(0.4, 100), strict=True)]
    assert sum(settled(falling, first=4, probe=50)) > 85
    assert sum(settled(noisy, first=8, probe=50)) > 50


def test_a_loss_that_rises_wakes_who_has_settled():
    before, after = around(0.2, 100), around(0.5, 100, seed=1)
    due = settled(before + after, first=8, probe=1000)
    assert sum(due[50:100]) < 10
    assert all(due[105:125])
    assert sum(due[160:]) < 10  # and it gets used to it


def test_a_prediction_that_is_not_finite_tells_nothing():
    trigger = SettledTrigger()
    trigger.is_due(0)
    trigger.note(0, torch.tensor([[0.3, 0.1]]))
    known = trigger.state_dict()
    trigger.note(0, torch.tensor([[float("nan"), 0.0]]))
    assert trigger.state_dict() == known


# What rest is.


@pytest.mark.parametrize("predict", ["before", "after"])
@pytest.mark.parametrize("cls", [Tent, Pupil])
def test_who_rests_predicts_in_one_pass_and_nothing_changes(cls, predict):
    pipeline = make(FirstVisitTrigger(), cls, predict=predict)
    follow(pipeline, "aab")
    before = pipeline.reservoir.state_dict()["experts"]
    expected = pipeline.infer(some_logits(7, dtype=torch.float64), domain="a").logits
    passes = watch_passes(pipeline)
    (logits,) = follow(pipeline, "a", first=7)
    assert passes == [False]
    assert torch.equal(logits, expected)
    assert not logits.requires_grad
    after = pipeline.reservoir.state_dict()["experts"]
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old["parameters"], new["parameters"])
        for key in ("optimizer", "student"):
            one, other = (expert["method"].get(key) for expert in (old, new))
            torch.testing.assert_close(other, one, rtol=0, atol=0)
    assert after[1]["tally"] == {"images": 36, "visits": 2, "updates": 2}


@pytest.mark.parametrize("cls", [Tent, Pupil])
def test_it_is_what_the_method_would_have_predicted_before_its_update(cls):
    resting, adapting = make(FirstVisitTrigger(), cls), make(None, cls)
    for pipeline in (resting, adapting):
        follow(pipeline, "ab")
    (one,), (other,) = (follow(p, "a", first=2) for p in (resting, adapting))
    assert torch.equal(one, other)
    assert not torch.equal(resting.reservoir.experts[1], adapting.reservoir.experts[1])


def test_a_trigger_that_lets_nobody_rest_changes_no_bit():
    one, other = (
        make(trigger, guard=LabelGuard(margin=0.02, every=2), pooling=EvidencePooling(2.0))
        for trigger in (None, EveryTrigger(1))
    )
    for a, b in zip(follow(one, "abcab"), follow(other, "abcab"), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(one.reservoir.experts, other.reservoir.experts)


def test_a_blend_is_predicted_in_one_pass_too():
    pipeline = make(FirstVisitTrigger())
    follow(pipeline, "aab")
    route = Route(1, torch.tensor([0.0, 0.6, 0.4]), is_new=False)
    pipeline.router.route = lambda style, may_open, domain: route
    inputs = some_logits(3, dtype=torch.float64)
    expected = pipeline.infer(inputs).logits
    passes = watch_passes(pipeline)
    assert torch.equal(pipeline.step(inputs).logits, expected)
    assert passes == [False]


def test_guard_and_pooling_count_updates_alone():
    guard, pooling = LabelGuard(margin=9.0), EvidencePooling()
    pipeline = make(EveryTrigger(4), guard=guard, pooling=pooling)
    follow(pipeline, "a" * 9)
    assert guard.report()["experts"][1]["batches"] == 3
    assert pooling.images[1] == 3 * len(some_logits(0))
    assert pipeline.report()["trigger"]["rests"] == 6


def test_an_expert_that_is_reset_adapts_again_and_the_counts_go_on():
    pipeline = make(FirstVisitTrigger())
    follow(pipeline, "aaba")
    pipeline.reset_expert(1)
    assert updates_of(pipeline, "a") == [1]
    report = pipeline.report()["trigger"]
    assert (report["batches"], report["rests"]) == (5, 1)


# Who cannot rest.


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (lambda: make_method(RDumb), "RDumb, which needs all of them: it counts batches"),
        (lambda: make_method(Rotta, supports="images"), "Rotta, .* stores images"),
    ],
)
def test_a_method_that_must_see_every_batch_is_refused(method, reason):
    with pytest.raises(ReservoirError, match=f"{reason}.*Leave reservoir.trigger out"):
        ReservoirPipeline(method(), OracleRouter(4), trigger=EveryTrigger())
    ReservoirPipeline(method(), OracleRouter(4))


# States.


@all_triggers
def test_a_resumed_run_equals_the_uninterrupted_one(name):
    one, other = (make(TRIGGERS[name](), pooling=EvidencePooling(2.0)) for _ in range(2))
    follow(one, "aaabbbaab")
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.report() == one.report()
    rest = "baacabbcaa" * 2
    for a, b in zip(follow(one, rest, first=9), follow(other, rest, first=9), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(one.reservoir.experts, other.reservoir.experts)
    assert other.report() == one.report()
    assert 0 < one.report()["trigger"]["rests"] < 29


def test_the_state_of_a_run_without_a_trigger_is_refused():
    with pytest.raises(ReservoirError, match="saved state has no trigger, this run has one"):
        make(EveryTrigger()).load_state_dict(make().state_dict())


def test_a_saved_reservoir_is_gone_on_with_by_a_trigger_that_begins_anew(tmp_path):
    plain, pipeline = make(), make(EveryTrigger(2))
    follow(plain, "aab")
    save_reservoir(plain, tmp_path / "saved")
    load_reservoir(pipeline, tmp_path / "saved")
    assert torch.equal(pipeline.reservoir.experts, plain.reservoir.experts)
    assert updates_of(pipeline, "aab") == [1, 0, 1]
    save_reservoir(pipeline, tmp_path / "again")
    load_reservoir(make(), tmp_path / "again")
