import copy
import logging
from functools import partial

import pytest
import torch
from logit_net import frozen, logit_method, some_logits
from small_net import make_method

from mmseg_reservoir.core import SingleModelPipeline
from mmseg_reservoir.methods import Cotta, Eta, Rotta, Sar, Tent
from mmseg_reservoir.methods.common.mean_teacher import MeanTeacher, soft_cross_entropy

ADAM = partial(torch.optim.Adam, lr=0.05)
FINE, BAD = some_logits(0), some_logits(1)


class Explodes(Tent):
    """Multiplies the loss by a number that a test sets."""

    factor = 1.0

    def loss(self, inputs):
        logits, loss = super().loss(inputs)
        return logits, self.factor * loss


def adapted(optimizer, cls=Explodes, **options):
    """A method that has made two good steps."""
    method = logit_method(cls, optimizer=optimizer, **options)
    for seed in range(2):
        method.adapt(some_logits(seed))
    return method


def domain_of(method):
    return method.space.snapshot().tolist(), frozen(method.domain_state())


@pytest.mark.parametrize(
    ("optimizer", "factor"),
    [
        (partial(torch.optim.SGD, lr=0.1, momentum=0.9), 1e5),
        (partial(torch.optim.SGD, lr=1e12), 1e-3),
    ],
)
def test_an_update_that_explodes_is_undone_counted_and_told(optimizer, factor, caplog):
    method = logit_method(Explodes, optimizer=optimizer)
    method.factor = 1e-14
    method.adapt(FINE)
    before = domain_of(method)
    method.factor = factor
    with caplog.at_level(logging.WARNING):
        method.adapt(BAD)
    values, state = domain_of(method)
    assert values == before[0]
    assert state == before[1] | {"rejected": 1}
    assert (method.counts["updates"], method.counts["rollbacks"]) == (1, 1)
    assert method.rejected == 1
    assert "update undone: a parameter is not finite, or beyond 100 (1 so far)" in caplog.text


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -1e3])
def test_any_number_counts(value):
    method = adapted(ADAM)
    before = domain_of(method)

    def move():
        method.space.values.data[-1] = value

    method.move = move
    method.adapt(FINE)
    assert domain_of(method)[0] == before[0]
    assert method.counts["rollbacks"] == 1


def test_the_moments_of_the_optimizer_go_back_with_the_parameters():
    method, other = adapted(ADAM), adapted(ADAM)
    method.optimizer.param_groups[0]["lr"] = 1e6
    method.adapt(BAD)
    assert method.counts["rollbacks"] == 1
    method.optimizer.param_groups[0]["lr"] = 0.05
    for x in (FINE, BAD):
        assert torch.equal(method.adapt(x), other.adapt(x))
    assert domain_of(method) == domain_of(other)


def test_moments_that_several_domains_share_stay_shared():
    method = logit_method(Sar, margin=2.0, reset_below=-1.0, published_momentum=True)
    method.adapt(FINE)
    one, other = method.domain_state(), method.fresh_domain_state()
    assert one["optimizer"] is other["optimizer"]
    momentum = one["optimizer"]["momentum_buffer"].clone()
    method.optimizer.param_groups[0]["lr"] = 1e9
    method.adapt(BAD)
    assert method.counts["rollbacks"] == 1
    assert method.domain_state()["optimizer"] is other["optimizer"]
    assert torch.equal(other["optimizer"]["momentum_buffer"], momentum)


def test_the_third_rejected_batch_in_a_row_leads_back_to_the_source(caplog):
    method = adapted(ADAM)
    assert not torch.equal(method.space.values, method.source)
    method.factor = torch.nan
    for _ in range(2):
        method.adapt(BAD)
    method.factor = 1.0
    method.adapt(FINE)  # an update that is made: the two before are forgiven
    method.factor = torch.nan
    for _ in range(2):
        method.adapt(BAD)
    assert method.counts["restarts"] == 0
    assert not torch.equal(method.space.values, method.source)
    method.adapt(BAD)
    assert torch.equal(method.space.values, method.source)
    assert method.domain_state() == method.fresh_domain_state()
    assert (method.counts["updates"], method.counts["restarts"]) == (3, 1)
    assert "3 rejected updates in a row: back to the parameters of the source" in caplog.text
    assert "Is the learning rate, 0.05, too large? (1 so far)" in caplog.text


def test_parameters_that_are_finite_and_break_the_prediction_are_left_again():
    class Overflows(Tent):
        def loss(self, inputs):
            logits = self.forward(inputs) * (torch.inf if self.counts["updates"] > 1 else 1.0)
            return logits, logits.softmax(1).amax(1).mean()

    method = adapted(ADAM, Overflows)
    for _ in range(3):
        method.adapt(FINE)
    assert torch.equal(method.space.values, method.source)
    assert method.counts["restarts"] == 1


def test_a_filter_that_takes_no_sample_of_a_broken_prediction_does_not_wait_for_ever():
    method = adapted(ADAM, Eta, margin=2.0, d_margin=2.0)
    assert method.counts["updates"] == 2
    forward, skipped = method.forward, method.counts["skipped"]
    method.forward = lambda inputs: forward(inputs) * torch.nan
    for _ in range(3):
        method.adapt(FINE)
    assert method.counts["not_finite"] == 3
    assert method.counts["restarts"] == 1
    assert method.counts["skipped"] == skipped
    assert torch.equal(method.space.values, method.source)


def test_a_class_that_is_ruled_out_is_no_trouble():
    method = adapted(ADAM)
    forward = method.forward
    ruled_out = torch.tensor([0.0, 0.0, 0.0, -torch.inf])
    method.forward = lambda inputs: forward(inputs) + ruled_out
    method.loss = lambda inputs: (method.forward(inputs), method.forward(inputs)[:, :3].mean())
    method.adapt(FINE)
    assert method.rejected == 0
    assert method.counts["updates"] == 3


def test_a_broken_batch_is_not_the_fault_of_the_domain():
    method = adapted(ADAM)
    before = method.space.snapshot()
    for _ in range(5):
        method.adapt(FINE * torch.nan)
    assert torch.equal(method.space.values, before)
    assert (method.counts["not_finite"], method.counts["restarts"]) == (5, 0)


def test_warnings_become_rare(caplog):
    method = adapted(ADAM)
    method.factor = torch.nan
    for _ in range(120):
        method.adapt(BAD)
    told = [m for m in caplog.messages if m.startswith("update skipped: the loss is not finite")]
    assert [m.split("(")[1].split()[0] for m in told] == ["1", "2", "3", "10", "100"]


class Pupil(MeanTeacher):
    factor = 1.0

    def loss(self, inputs):
        prediction = self.predict(inputs)
        self.take_student()
        loss = soft_cross_entropy(self.forward(inputs), prediction.square().softmax(1)).mean()
        return prediction, self.factor * loss


@pytest.mark.parametrize("factor", [torch.nan, 1e9])
def test_student_and_teacher_go_back_and_begin_anew_together(factor):
    sgd = partial(torch.optim.SGD, lr=0.1)
    method = adapted(sgd, Pupil, momentum=0.999)
    before = domain_of(method)
    method.factor = factor
    method.adapt(BAD)  # a student that explodes, of which the teacher takes a thousandth
    values, state = domain_of(method)
    assert values == before[0]
    assert state == before[1] | {"rejected": 1}
    for _ in range(2):
        method.adapt(BAD)
    assert torch.equal(method.space.values, method.source)
    assert torch.equal(method.state["student"], method.source)
    assert method.counts["restarts"] == 1
    method.factor = 1.0
    method.adapt(FINE)
    assert method.counts["updates"] == 3


@pytest.mark.parametrize("cls", [Cotta, Rotta])
def test_real_teachers_survive_an_absurd_rate(stream, cls):
    options = dict(update_every=2, augment=dict(clip=False)) if cls is Rotta else {}
    method = make_method(cls, supports=cls.supports[0], lr=1e12, **options)
    for x in stream:
        method.adapt(x)
    assert method.counts["rollbacks"] >= 3
    assert method.counts["restarts"] >= 1
    assert torch.isfinite(method.predict(stream[0])).all()
    assert torch.isfinite(method.state["student"]).all()


@pytest.mark.parametrize("rate", [1e3, 1e12, 1e30])
def test_an_absurd_rate_leaves_the_source_model(stream, rate):
    pipeline = SingleModelPipeline(make_method(lr=rate))
    expected = [pipeline.predict_source(x) for x in stream]
    for x, logits in zip(stream, expected, strict=True):
        assert torch.equal(pipeline.step(x).logits, logits)
    counts = pipeline.method.counts
    assert counts["updates"] == 0
    assert counts["rollbacks"] == len(stream)
    assert counts["restarts"] == len(stream) // 3


def test_a_gradient_whose_square_overflows_stops_no_optimizer():
    method = adapted(ADAM)
    before = domain_of(method)
    method.factor = 1e25
    method.adapt(BAD)
    assert method.counts["not_finite"] == 1
    values, state = domain_of(method)
    assert (values, state["optimizer"]) == (before[0], before[1]["optimizer"])


def test_statistics_that_overflow_take_the_update_with_them(stream):
    options = dict(update_every=2, augment=dict(clip=False))
    method = make_method(Rotta, supports="images", **options)
    method.adapt(stream[0])
    before = method.space.snapshot()
    loss = method.loss

    def overflow(inputs):
        result = loss(inputs)
        method.space.buffers[-1] = torch.inf
        return result

    method.loss = overflow
    method.adapt(stream[1])
    assert torch.equal(method.space.values, before)
    assert method.counts["rollbacks"] == 1


def test_how_many_were_rejected_in_a_row_is_saved(stream):
    def broken(saved=None):
        pipeline = SingleModelPipeline(make_method(lr=1e12))
        if saved is not None:
            pipeline.load_state_dict(saved)
        return pipeline

    one = broken()
    for x in stream[:2]:
        one.step(x)
    other = broken(copy.deepcopy(one.state_dict()))
    for pipeline in (one, other):
        pipeline.step(stream[2])
        assert pipeline.method.counts["restarts"] == 1
