"""Settling an update: it is scaled by the guard's trust, then shared with the other experts."""

import io
import logging
from functools import partial

import pytest
import torch
from logit_net import as_image, logit_method, some_logits
from small_net import make_method
from torch.nn.functional import cross_entropy

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.core.guard import Guard, LabelGuard
from mmseg_reservoir.core.pooling import EvidencePooling, Pooling
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Eta, RDumb, Rotta, Tent
from mmseg_reservoir.methods.common.mean_teacher import MeanTeacher
from mmseg_reservoir.routing import OracleRouter

SGD = partial(torch.optim.SGD, lr=0.5)
DOMAINS = "abcab"


class SetGuard(Guard):
    """Looks at every batch, and says what it is told to."""

    def __init__(self):
        self.keep = 1.0
        self.scales = {}
        self.seen = []

    def prepare(self, predict, source):
        pass

    def is_due(self, index):
        return True

    def judge(self, index, expert, source):
        self.seen.append((index, expert, source))
        return self.keep

    def scale(self, index):
        return self.scales.get(index, 1.0)

    def forget(self, index):
        self.scales.pop(index, None)

    def report(self):
        return {"seen": len(self.seen)}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class SetPooling(Pooling):
    """Shares as told."""

    def __init__(self, *shares):
        self.told = shares
        self.asked = []

    def shares(self, index, count, images):
        self.asked.append(index)
        found = torch.zeros(count)
        found[: len(self.told)] = torch.tensor(self.told)[:count]
        found[index] = 0.0
        return found

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Pupil(MeanTeacher):
    """A student that learns the labels of its teacher."""

    def loss(self, inputs):
        prediction = self.predict(inputs)
        self.take_student()
        return prediction, cross_entropy(self.forward(inputs), prediction.argmax(1))


class Brittle(Tent):
    """A finite loss without a gradient, if told so."""

    is_broken = False

    def loss(self, inputs):
        logits, loss = super().loss(inputs)
        if self.is_broken:
            loss = loss + (0 * logits).square().sum().sqrt()
        return logits, loss


METHODS = {
    "tent": partial(logit_method, Tent),
    "teacher": partial(logit_method, Pupil, momentum=0.5),
}
both_methods = pytest.mark.parametrize("kind", METHODS)


def make(kind="tent", method=None, lr=0.5, **options):
    optimizer = partial(torch.optim.SGD, lr=lr)
    method = method or METHODS[kind](dtype=torch.float64, optimizer=optimizer)
    return ReservoirPipeline(method, OracleRouter(5), init="source", **options)


def batch(seed, scale=1.0):
    return some_logits(seed, dtype=torch.float64, scale=scale)


def follow(pipeline, domains, first=0, scale=1.0):
    """Step through these domains, a new batch each; the predictions."""
    return [
        pipeline.step(batch(seed, scale), domain=domain).logits
        for seed, domain in enumerate(domains, start=first)
    ]


def vectors(pipeline):
    """Parameters of all experts, and their students where there are some."""
    states = [expert["method"] for expert in pipeline.reservoir.state_dict()["experts"]]
    students = [state["student"] for state in states if "student" in state]
    experts = pipeline.reservoir.experts.clone()
    return [experts, torch.stack(students)] if students else [experts]


def begun(kind="tent", **options):
    """A pipeline with experts a, b and c (1, 2 and 3), and what it is before the next batch."""
    pipeline = make(kind, **options)
    follow(pipeline, DOMAINS)
    return pipeline, vectors(pipeline)


def twin_after(kind, domains):
    """What nobody looks after."""
    pipeline, _ = begun(kind)
    follow(pipeline, domains, first=len(DOMAINS))
    return vectors(pipeline)


def step_in(pipeline, domain):
    follow(pipeline, domain, first=len(DOMAINS))
    return vectors(pipeline)


# Nothing is done without being asked for.


@both_methods
def test_without_guard_and_pooling_every_expert_is_a_plain_method(kind):
    pipeline = make(kind)
    plain = {domain: METHODS[kind](dtype=torch.float64, optimizer=SGD) for domain in "ab"}
    for i, (domain, logits) in enumerate(zip("abbab", follow(pipeline, "abbab"), strict=True)):
        assert torch.equal(logits, plain[domain].adapt(batch(i)))
    for index, domain in enumerate("ab", start=1):
        assert torch.equal(pipeline.reservoir.experts[index], plain[domain].space.values)
    assert torch.equal(pipeline.reservoir.experts[0], pipeline.source)
    assert pipeline.report() == {}
    assert not {"guard", "pooling"} & set(pipeline.state_dict())


@pytest.mark.parametrize("predict", ["before", "after"])
@both_methods
def test_a_quiet_guard_and_a_pooling_that_shares_nothing_change_no_bit(kind, predict):
    plain = make(kind, predict=predict)
    cared = make(kind, predict=predict, guard=LabelGuard(margin=9.0), pooling=EvidencePooling(0.0))
    cared.guard.judge = lambda index, expert, source: 1.0
    for one, other in zip(follow(plain, "abcab"), follow(cared, "abcab"), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(vectors(plain), vectors(cared), strict=True):
        assert torch.equal(one, other)


def test_what_all_samples_of_one_image_teach_is_not_shared():
    def shared(cls, **options):
        method = logit_method(cls, dtype=torch.float64, optimizer=SGD)
        pipeline = make(method=method, pooling=SetPooling(0.5, 0.5), **options)
        pipeline.step(as_image(batch(0, scale=6.0))[:1], domain="a")
        pipeline.step(as_image(batch(1, scale=6.0))[:1], domain="a")
        return pipeline.pooling.asked

    assert shared(Tent) == []
    assert shared(Eta) == [1, 1]  # of selected samples it is


def test_a_guard_costs_one_forward_pass_where_it_looks():
    pipeline = make(guard=LabelGuard(margin=9.0, every=2))
    calls = []
    forward = pipeline.method.forward
    pipeline.method.forward = lambda x: calls.append(1) or forward(0.01 * x)
    counts = []
    for i in range(6):
        calls.clear()
        pipeline.step(batch(i), domain="a")
        counts.append(len(calls))
    assert counts == [2, 1, 2, 1, 2, 1]


def test_the_guard_sees_what_expert_and_source_said_of_the_batch():
    guard = SetGuard()
    pipeline = make(guard=guard)
    follow(pipeline, "aab")
    plain = METHODS["tent"](dtype=torch.float64, optimizer=SGD)
    expected = [plain.adapt(batch(i)) for i in range(2)]
    expected.append(batch(2))  # a new expert says what the source says
    assert [index for index, _, _ in guard.seen] == [1, 1, 2]
    for i, (_, expert, source) in enumerate(guard.seen):
        assert torch.equal(expert.plain, expected[i])
        assert torch.equal(source.plain, batch(i))
        assert expert.mirrored is source.mirrored is None  # no maps
    assert pipeline.report() == {"guard": {"seen": 3}}


def test_of_maps_the_guard_sees_the_mirror_images_too():
    guard = SetGuard()
    pipeline = make(guard=guard)
    maps = [as_image(batch(i)) for i in range(2)]
    for image in maps:
        before = [row.clone() for row in pipeline.reservoir.experts]
        pipeline.step(image, domain="a")
    _, expert, source = guard.seen[-1]
    scale, shift = before[1].view(2, 1, -1, 1, 1)
    # This net looks at single pixels: what it says of the mirror image, turned back, is the same.
    torch.testing.assert_close(expert.plain, maps[1] * scale + shift)
    torch.testing.assert_close(expert.mirrored, expert.plain)
    assert torch.equal(source.plain, maps[1])
    assert torch.equal(source.mirrored, maps[1])
    assert not torch.allclose(expert.plain, source.plain)


def test_a_mirror_image_is_turned_before_and_after():
    guard = SetGuard()
    pipeline = make(guard=guard)
    forward = pipeline.method.forward
    places = torch.arange(3.0, dtype=torch.float64)
    pipeline.method.forward = lambda x: forward(x * places)
    image = as_image(batch(0))
    pipeline.step(image, domain="a")
    _, _, source = guard.seen[-1]
    torch.testing.assert_close(source.mirrored, image * places.flip(0))


# Pooling.


@both_methods
def test_the_others_move_by_their_share_of_the_update(kind):
    shares = (0.25, 0.5, 0.75, 1.0)
    pooling = SetPooling()
    pipeline, before = begun(kind, pooling=pooling)
    pooling.told = shares
    after = step_in(pipeline, "b")
    for old, new, alone in zip(before, after, twin_after(kind, "b"), strict=True):
        update = new[2] - old[2]
        assert update.abs().max() > 1e-3
        assert torch.equal(new[2], alone[2])
        for other in (0, 1, 3):
            torch.testing.assert_close(new[other] - old[other], shares[other] * update)
    assert pooling.asked == [1, 2, 3, 1, 2, 2]


def test_by_evidence_a_young_expert_learns_more_from_the_others_than_an_old_one():
    pipeline = make(pooling=EvidencePooling(n0=4.0))
    follow(pipeline, "aaab")
    before = pipeline.reservoir.experts.clone()
    follow(pipeline, "c", first=4)
    moved = pipeline.reservoir.experts[:3] - before
    update = pipeline.reservoir.experts[3] - pipeline.source
    for index, own in ((1, 3), (2, 1)):
        images = own * len(batch(0))
        torch.testing.assert_close(moved[index], 4 / (4 + images) * update)


def test_an_expert_that_moves_along_keeps_its_optimizer():
    def momenta(pipeline):
        return [s["optimizer"]["momentum_buffer"] for s in pipeline.reservoir._states[1:]]

    optimizer = partial(torch.optim.SGD, lr=0.5, momentum=0.9)
    method = logit_method(Tent, torch.float64, optimizer)
    pipeline = make(method=method, pooling=SetPooling(0.5, 0.5, 0.5))
    follow(pipeline, "ab")
    before = [momentum.clone() for momentum in momenta(pipeline)]
    follow(pipeline, "a", first=2)
    assert not torch.equal(momenta(pipeline)[0], before[0])
    assert torch.equal(momenta(pipeline)[1], before[1])


# The guard.


@both_methods
def test_an_alarm_pulls_the_expert_towards_the_source_and_is_not_shared(kind):
    guard, pooling = SetGuard(), SetPooling()
    pipeline, before = begun(kind, guard=guard, pooling=pooling)
    guard.keep, pooling.told = 0.25, (0.5, 0.5, 0.5, 0.5)
    after = step_in(pipeline, "b")
    source = pipeline.source
    for old, new, free in zip(before, after, twin_after(kind, "b"), strict=True):
        assert (free[2] - source).abs().max() > 1e-2
        torch.testing.assert_close(new[2], source + 0.25 * (free[2] - source))
        for other in (0, 1, 3):
            assert torch.equal(new[other], old[other])
    assert pooling.asked == [1, 2, 3, 1, 2]  # the last update is no evidence, either


@both_methods
def test_of_the_update_of_a_suspect_the_guards_share_is_made(kind):
    guard = SetGuard()
    pipeline, before = begun(kind, guard=guard)
    guard.scales[2] = 0.125
    after = step_in(pipeline, "b")
    for old, new, free in zip(before, after, twin_after(kind, "b"), strict=True):
        update = free[2] - old[2]
        assert update.abs().max() > 1e-3
        torch.testing.assert_close(new[2], old[2] + 0.125 * update)
        assert torch.equal(new[[0, 1, 3]], old[[0, 1, 3]])


def test_an_update_is_scaled_before_the_way_from_the_source_is_cut():
    guard = SetGuard()
    pipeline, (before,) = begun(guard=guard)
    guard.scales[1], guard.keep = 0.5, 0.25
    (after,), (free,) = step_in(pipeline, "a"), twin_after("tent", "a")
    scaled = before[1] + 0.5 * (free[1] - before[1])
    torch.testing.assert_close(after[1], pipeline.source + 0.25 * (scaled - pipeline.source))


def test_a_suspect_takes_less_of_the_others():
    guard, pooling = SetGuard(), SetPooling()
    pipeline, (before,) = begun(guard=guard, pooling=pooling)
    guard.scales[1], pooling.told = 0.25, (0.5, 0.5, 0.5, 0.5)
    (after,) = step_in(pipeline, "b")
    update = after[2] - before[2]
    torch.testing.assert_close(after[1] - before[1], 0.125 * update)
    torch.testing.assert_close(after[3] - before[3], 0.5 * update)


def test_the_prediction_after_the_update_is_that_of_what_became_of_it():
    guard = SetGuard()
    pipeline, _ = begun(guard=guard, predict="after")
    guard.scales[2], guard.keep = 0.5, 0.5
    (logits,) = follow(pipeline, "b", first=len(DOMAINS))
    scale, shift = pipeline.reservoir.experts[2].view(2, -1)
    torch.testing.assert_close(logits, batch(len(DOMAINS)) * scale + shift)


def test_a_guard_that_counts_labels_keeps_all_classes_where_tent_loses_them():
    free, guarded = make(lr=5.0), make(lr=5.0, guard=LabelGuard(margin=0.05))
    found = {}
    for pipeline in (free, guarded):
        logits = torch.cat(follow(pipeline, "a" * 40, scale=0.5)[-10:])
        found[pipeline] = torch.bincount(logits.argmax(1), minlength=4).count_nonzero()
    assert found[free] < 4
    assert found[guarded] == 4
    report = guarded.report()["guard"]
    assert report["experts"][1]["alarms"] == len(report["events"]) > 0
    assert report["experts"][1]["scale"] < 1


@both_methods
def test_an_expert_that_is_reset_begins_anew_and_the_others_go_on(kind):
    guard = SetGuard()
    pipeline, before = begun(kind, guard=guard)
    guard.scales = {1: 0.5, 2: 0.25}
    pipeline.reset_expert(2)
    assert guard.scales == {1: 0.5}
    experts, state = pipeline.reservoir.experts, pipeline.reservoir.checkout(2)[1]
    assert torch.equal(experts[2], pipeline.source)
    assert state.keys() == pipeline.method.fresh_domain_state().keys()
    assert not state["optimizer"]
    assert torch.equal(experts[[0, 1, 3]], before[0][[0, 1, 3]])
    pipeline.step(batch(9), domain="b")
    assert not torch.equal(experts[2], pipeline.source)  # its domain is still known


# What is no step, and what is no parameter.


def test_who_begins_anew_shares_nothing():
    method = logit_method(RDumb, torch.float64, SGD, reset_every=3, margin=1.0, d_margin=1.1)
    guard, pooling = SetGuard(), SetPooling(0.5, 0.5, 0.5)
    pipeline = make(method=method, guard=guard, pooling=pooling)
    follow(pipeline, "aba")
    before = pipeline.reservoir.experts.clone()
    assert (before[[0, 2]] - pipeline.source).abs().amax(1).min() > 1e-3  # it did share so far
    guard.scales[1] = 0.5
    follow(pipeline, "a", first=3)
    assert method.counts["resets"] == 1
    assert torch.equal(pipeline.reservoir.experts[1], pipeline.source)
    assert torch.equal(pipeline.reservoir.experts[[0, 2]], before[[0, 2]])
    assert (len(guard.seen), len(pooling.asked)) == (3, 3)


def make_rotta():
    """Make a method whose experts carry statistics, and which updates at every batch."""
    options = dict(update_every=2, nu=0.5, alpha=0.2, augment=dict(clip=False))
    return make_method(Rotta, supports="images", **options)


def test_statistics_of_an_expert_are_neither_shared_nor_scaled_nor_pulled(stream):
    def begin(**options):
        method = make_rotta()
        pipeline = make(method=method, **options)
        for x, domain in zip(stream, "ab", strict=False):
            pipeline.step(x, domain=domain)
        return pipeline, method.space.adapting, pipeline.reservoir.experts.clone()

    def step(pipeline):
        pipeline.step(stream[2], domain="a")
        return pipeline.reservoir.experts

    plain, adapting, before = begin()
    free = step(plain)
    moved = (free[1] - before[1]).abs()
    assert min(moved[:adapting].max(), moved[adapting:].max()) > 1e-3

    guard = SetGuard()
    pulled, _, _ = begin(guard=guard)
    guard.scales[1], guard.keep = 0.5, 0.5
    assert torch.equal(step(pulled)[1, adapting:], free[1, adapting:])
    assert not torch.allclose(pulled.reservoir.experts[1, :adapting], free[1, :adapting])

    pooling = SetPooling()
    pooled, _, _ = begin(pooling=pooling)
    pooling.told = (0.5, 0.5, 0.5)
    assert torch.equal(step(pooled)[[0, 2], adapting:], before[[0, 2], adapting:])
    assert torch.equal(pooled.reservoir.experts[1], free[1])
    assert not torch.allclose(pooled.reservoir.experts[2, :adapting], before[2, :adapting])


def test_the_guard_compares_with_the_source_by_the_statistics_of_the_expert(stream):
    guard = SetGuard()
    method = make_rotta()
    pipeline = make(method=method, guard=guard)
    for x in stream[:3]:
        pipeline.step(x, domain="a")
    adapting = method.space.adapting
    expected = torch.cat([pipeline.source[:adapting], pipeline.reservoir.experts[1, adapting:]])
    assert not torch.allclose(expected, pipeline.source)
    with method.space.at(expected):
        assert torch.equal(guard.seen[-1][2].plain, method.predict(stream[2]))
    assert not torch.allclose(guard.seen[-1][2].plain, pipeline.predict_source(stream[2]))


# Resuming, and what goes wrong.


@both_methods
def test_a_resumed_run_equals_the_uninterrupted_one(kind):
    def begin():
        guard = LabelGuard(margin=0.02, every=2, momentum=0.5)
        return make(kind, lr=2.0, guard=guard, pooling=EvidencePooling(n0=2.0))

    def resume(pipeline):
        return follow(pipeline, "bca" * 8, first=10, scale=0.5)

    one, other = begin(), begin()
    follow(one, "abcabcabca", scale=0.5)
    alarms = len(one.report()["guard"]["events"])
    assert alarms > 0
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.report() == one.report()
    for a, b in zip(resume(one), resume(other), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(vectors(one), vectors(other), strict=True):
        assert torch.equal(a, b)
    assert other.report() == one.report()
    assert other.pooling.images == one.pooling.images
    assert len(one.report()["guard"]["events"]) > alarms


@pytest.mark.parametrize("part", ["guard", "pooling"])
def test_the_state_of_a_run_that_was_looked_after_otherwise_is_refused(part):
    cared = make(**{part: {"guard": LabelGuard(margin=0.1), "pooling": EvidencePooling()}[part]})
    plain = make()
    with pytest.raises(ReservoirError, match=f"saved state has a {part}, this run has none: choo"):
        plain.load_state_dict(cared.state_dict())
    with pytest.raises(ReservoirError, match=f"saved state has no {part}, this run has one: choo"):
        cared.load_state_dict(plain.state_dict())


@pytest.mark.parametrize("broken", ["gradient", "inputs"])
def test_a_broken_batch_of_one_expert_leaves_all_experts_as_they_were(broken, caplog):
    method = logit_method(Brittle, torch.float64, SGD)
    pipeline = make(
        method=method, guard=LabelGuard(margin=9.0), pooling=SetPooling(0.5, 0.5, 0.5, 0.5)
    )
    twin = make(guard=LabelGuard(margin=9.0), pooling=SetPooling(0.5, 0.5, 0.5, 0.5))
    for each in (pipeline, twin):
        follow(each, DOMAINS)
    before = pipeline.reservoir.experts.clone()
    method.is_broken = broken == "gradient"
    with caplog.at_level(logging.WARNING):
        factor = float("nan") if broken == "inputs" else 1.0
        pipeline.step(factor * batch(99), domain="b")
    method.is_broken = False
    word = "gradient" if broken == "gradient" else "loss"
    assert f"the {word} is not finite" in caplog.text
    assert method.rejected == 1
    assert torch.equal(pipeline.reservoir.experts, before)
    for one, other in zip(
        follow(pipeline, "acb", first=5), follow(twin, "acb", first=5), strict=True
    ):
        assert torch.equal(one, other)
    assert torch.equal(pipeline.reservoir.experts, twin.reservoir.experts)
    assert not torch.equal(pipeline.reservoir.experts, before)
