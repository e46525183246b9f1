import pytest
import torch
from small_net import make_classifier, make_method
from teacher_by_hand import DOUBLE, ByHand, batches
from torch import nn
from torch.nn.functional import batch_norm

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Rotta
from mmseg_reservoir.methods.common.augment import Augment
from mmseg_reservoir.methods.rotta import robust_norms
from mmseg_reservoir.params import ParamSpace, norm_affine, set_batch_share
from mmseg_reservoir.params.normalization import learning, use_batch_statistics
from mmseg_reservoir.routing import OracleRouter

X = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1


def rotta(cls=Rotta, **options):
    options = {"capacity": 16, "update_every": 4, "dtype": DOUBLE, **options}
    return make_method(cls, supports="images", **options)


def test_the_student_learns_from_the_teacher_on_the_memory():
    method, hand = rotta(nu=0.2, alpha=0.3, seed=5), ByHand(rate=0.3)
    generator, augment = torch.Generator().manual_seed(5), Augment()
    for x in batches(3):
        with torch.no_grad():
            expected = hand.teacher(x)
        torch.testing.assert_close(method.adapt(x), expected)
        items = method.state["bank"]
        images = torch.stack([item["image"] for item in items])
        assert len(images) > 2
        ages = torch.tensor([item["age"] / 16 for item in items], dtype=DOUBLE)
        with torch.no_grad():
            target = hand.learn(hand.teacher, images)[0].softmax(1)
        logits, _ = hand.learn(hand.student, augment(images, generator))
        weights = (-ages).exp() / (1 + (-ages).exp())
        hand.update((weights * -(target * logits.log_softmax(1)).sum(1)).mean(), rate=0.2)
    hand.assert_teacher_is_in(method.space)
    student = method.space.split(method.state["student"])
    torch.testing.assert_close(student[-1], hand.student[4].running_var)
    assert not torch.allclose(hand.student[4].running_var, hand.teacher[4].running_var)


def test_it_learns_every_so_many_samples_also_within_a_batch():
    method = rotta(update_every=3)
    for x in batches(3):  # 4, 8 and 12 samples: 1, 2 and 4 updates are due
        method.adapt(x)
    assert method.counts["updates"] == 4
    assert method.counts["skipped"] == 0
    method = rotta(update_every=8)
    first, second = batches(2)
    method.adapt(first)
    assert torch.equal(method.space.values, method.source)
    assert method.counts == {
        "updates": 0,
        "skipped": 1,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }
    method.adapt(second)
    assert method.counts == {
        "updates": 1,
        "skipped": 1,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }
    assert not torch.equal(method.space.values, method.source)


def test_a_prediction_normalises_by_the_statistics_and_leaves_them_alone():
    method, (x, y) = rotta(), batches(2)
    method.adapt(x)
    before = method.space.snapshot()
    together, alone = method.predict(y), torch.cat([method.predict(image[None]) for image in y])
    torch.testing.assert_close(together, alone)  # not by the batch
    assert torch.equal(method.space.values, before)
    net = method.space.model
    h = batch_norm(net[:4](y), net[4].running_mean, net[4].running_var, net[4].weight, net[4].bias)
    torch.testing.assert_close(net[5:](h), together)


def test_weight_decay_does_not_touch_the_statistics():
    one = rotta(nu=0.0)
    other = rotta(nu=0.0)
    other.optimizer.param_groups[0]["weight_decay"] = 0.5
    (x,) = batches(1)
    one.adapt(x)
    other.adapt(x)
    carried = slice(one.space.adapting, None)
    assert torch.equal(one.state["student"][carried], other.state["student"][carried])
    assert not torch.equal(one.state["student"], other.state["student"])


def test_memory_statistics_student_and_teacher_are_the_experts_own():
    pipeline = ReservoirPipeline(rotta(nu=0.5), OracleRouter(4))
    fog, night, *more = batches(6)
    pipeline.step(fog, domain="fog")
    pipeline.step(1 - night / 2, domain="night")
    parameters, state = pipeline.reservoir.checkout(1)
    kept = parameters.clone(), state["student"].clone()
    images = [item["image"].clone() for item in state["bank"]]
    for x in more:
        pipeline.step(1 - x / 2, domain="night")
    parameters, state = pipeline.reservoir.checkout(1)
    assert torch.equal(parameters, kept[0])
    assert torch.equal(state["student"], kept[1])
    assert all(any(torch.equal(item["image"], x) for x in fog) for item in state["bank"])
    torch.testing.assert_close([item["image"] for item in state["bank"]], images, rtol=0, atol=0)
    other, others = pipeline.reservoir.checkout(2)
    carried = slice(pipeline.method.space.adapting, None)
    assert not torch.isclose(parameters[carried], other[carried]).any()
    assert others["seen"] == 20
    assert state["seen"] == 4


def test_an_ensemble_averages_the_statistics_and_the_source_keeps_its_own():
    pipeline = ReservoirPipeline(rotta(nu=0.5), OracleRouter(4))
    fog, night, x = batches(3)
    pipeline.step(fog, domain="fog")
    pipeline.step(1 - night / 2, domain="night")
    experts, weights = pipeline.reservoir.experts, torch.tensor([0.2, 0.5, 0.3], dtype=DOUBLE)
    net = make_classifier(DOUBLE)
    with torch.no_grad():
        torch.testing.assert_close(pipeline.predict_source(x), net(x))
        space = ParamSpace(net, norm_affine(net))
        space.carry({"m": net[4].running_mean, "v": net[4].running_var})
        space.load(weights @ experts)
        with pipeline.method.space.ensembled(experts, weights):
            torch.testing.assert_close(pipeline.method.predict(x), net(x))


def test_a_clone_goes_on_with_the_student_and_an_empty_memory():
    method = rotta()
    for x in batches(2):
        method.adapt(x)
    state = method.inherit_domain_state(method.domain_state())
    assert state["bank"] == []
    assert state["seen"] == 0
    assert torch.equal(state["student"], method.state["student"])


def test_what_breaks_the_model_is_not_remembered_and_leaves_no_trace():
    method, (x,) = rotta(), batches(1)
    broken = x.clone()
    broken[0] = torch.nan
    method.adapt(broken)
    assert len(method.state["bank"]) == 3
    assert method.counts["updates"] == 1
    method = rotta()
    method.augment = lambda images, generator: images * torch.inf
    method.adapt(x)
    assert method.counts["not_finite"] == 1
    assert torch.equal(method.space.values, method.source)
    assert torch.equal(method.state["student"], method.source)


def test_the_papers_settings_are_the_defaults():
    method = make_method(Rotta, supports="images")
    assert (method.bank.capacity, method.update_every) == (64, 64)
    assert (method.bank.lambda_t, method.bank.lambda_u) == (1, 1)
    assert method.momentum == 1 - 0.001
    assert method.norms["4"].rate == 0.05


def test_bad_options_and_pixels_are_explained():
    with pytest.raises(ReservoirError, match="capacity must be a whole number of at least 1"):
        rotta(capacity=0)
    method = make_method(Rotta, supports="pixels")
    with pytest.raises(ReservoirError, match=r"needs logits \(N, C\), got \(1, 5, 8, 8\)"):
        method.adapt(torch.rand(1, 3, 8, 8))


def test_statistics_become_values_of_the_space_and_learn_only_in_the_context():
    net = make_classifier()
    space = ParamSpace(net, norm_affine(net))
    adapting = len(space)
    norms = robust_norms(space, 0.5)
    assert space.adapting == adapting
    assert space.names[-2:] == ["4.running_mean", "4.running_var"]
    assert len(space) == adapting + 16
    before = space.snapshot()
    net(X)
    assert torch.equal(space.values, before)
    with learning(norms.values()):
        net(X).sum().backward()
    assert torch.equal(space.values[:adapting], before[:adapting])
    assert not torch.isclose(space.values[adapting:], before[adapting:]).any()
    assert space.values.grad[:adapting].abs().sum() > 0
    assert not space.values.grad[adapting:].any()
    moved = net(X)
    space.load(before)
    assert not torch.allclose(net(X), moved)
    with space.at(before + 1):
        assert torch.equal(net[4].running_mean, before[adapting : adapting + 8] + 1)


def test_unless_they_learn_the_model_is_the_one_that_came():
    net, x = make_classifier(), X
    expected = net(x)
    norms = robust_norms(ParamSpace(net, norm_affine(net)), 0.5)
    torch.testing.assert_close(net(x), expected)
    with learning(norms.values()), torch.no_grad():  # a teacher has no gradient
        assert not torch.allclose(net(x), expected)


def test_a_net_without_batch_normalisation_has_nothing_to_carry():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    space = ParamSpace(net, norm_affine(net))
    assert not robust_norms(space, 0.5)
    assert len(space) == 8


def test_other_statistics_leave_nothing_to_start_from():
    net = make_classifier()
    use_batch_statistics(net)
    with pytest.raises(ReservoirError, match=r'but 4 keeps none: .* statistics="batch"'):
        robust_norms(ParamSpace(net, norm_affine(net)), 0.5)
    net = make_classifier()
    set_batch_share(net, 0.1)
    with pytest.raises(ReservoirError, match=r'blends them already: .*statistics="running"'):
        robust_norms(ParamSpace(net, norm_affine(net)), 0.5)


def test_plain_layers_are_replaced_also_a_second_time():
    net = nn.Sequential(
        nn.BatchNorm1d(3), nn.SyncBatchNorm(3), type("Own", (nn.BatchNorm3d,), {})(3)
    )
    for _ in range(2):
        assert len(robust_norms(ParamSpace(net, norm_affine(net)), 0.5)) == 3
