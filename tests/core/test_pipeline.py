import copy
import io
import logging
from functools import partial

import pytest
import torch
from small_net import make_method, make_net, make_router

from mmseg_reservoir.core import DomainResetPipeline, ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.core.route import Route
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.roid import Roid
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.routing.base import Router
from mmseg_reservoir.style import StyleEncoder


@pytest.fixture(scope="module")
def encoder():
    return StyleEncoder("seeded")


def make_reservoir(encoder, tau=5.0, k_max=4, temperature=1.0, **options):
    centroid = encoder(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    router = make_router(centroid, tau, k_max, temperature=temperature)
    return ReservoirPipeline(make_method(), router, encoder, **options)


class FixedRouter(Router):
    """Routes as told."""

    def __init__(self, routes, k_max=4):
        super().__init__(k_max)
        self.routes = iter(routes)

    @property
    def k(self):
        raise NotImplementedError

    def route(self, style, *, may_open, domain):
        return next(self.routes)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("predict", ["before", "after"])
@pytest.mark.parametrize("k_max", [1, 4])
def test_without_new_styles_it_equals_the_plain_method_bit_for_bit(encoder, stream, k_max, predict):
    tau = 5.0 if k_max == 1 else 1e9
    plain = SingleModelPipeline(make_method(), predict)
    reservoir = make_reservoir(encoder, tau, k_max, predict=predict)
    for x in stream:
        a, b = plain.step(x), reservoir.step(x)
        assert torch.equal(a.logits, b.logits)
        assert (b.route.index, b.k) == (0, 1)
    assert torch.equal(plain.method.space.values, reservoir.method.space.values)


def test_finds_the_two_styles_and_recognises_them(encoder, stream):
    pipeline = make_reservoir(encoder)
    outcomes = [pipeline.step(x) for x in stream]
    assert outcomes[-1].k >= 2
    even = {o.route.index for o in outcomes[::2]}
    odd = {o.route.index for o in outcomes[1::2]}
    assert not even & odd


def test_adapting_one_expert_leaves_all_others_and_their_state_untouched(encoder, stream):
    pipeline = make_reservoir(encoder)
    for x in stream:
        pipeline.step(x)
    for x in stream:
        before = copy.deepcopy(pipeline.reservoir.state_dict()["experts"])
        k = pipeline.step(x).route.index
        after = pipeline.reservoir.state_dict()["experts"]
        for i, (old, new) in enumerate(zip(before, after, strict=False)):
            same = torch.equal(old["parameters"], new["parameters"])
            moments, now = old["method"]["optimizer"], new["method"]["optimizer"]
            same_state = all(torch.equal(moments[name], now[name]) for name in now)
            assert same == same_state == (i != k)


def test_one_hot_routes_need_no_second_forward(encoder, stream):
    soft = Route(0, torch.tensor([0.7, 0.3]), is_new=False)
    hard = Route(0, torch.tensor([1 - 1e-7, 1e-7]), is_new=False)
    new = Route(1, torch.tensor([0.0, 1.0]), is_new=True)
    pipeline = ReservoirPipeline(make_method(), FixedRouter([new, hard, soft]), init="source")
    calls = []
    forward = pipeline.method.forward
    pipeline.method.forward = lambda x: calls.append(1) or forward(x)
    counts = []
    for x in stream[:3]:
        calls.clear()
        pipeline.step(x)
        counts.append(len(calls))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize("predict", ["before", "after"])
def test_prediction_is_that_of_the_ensemble(stream, predict):
    weights = torch.tensor([0.6, 0.4])
    routes = [Route(1, torch.tensor([0.0, 1.0]), is_new=True), Route(0, weights, is_new=False)]
    pipeline = ReservoirPipeline(make_method(), FixedRouter(routes), init="source", predict=predict)
    pipeline.step(stream[0])
    before = pipeline.reservoir.experts.clone()
    logits = pipeline.step(stream[1]).logits
    experts = before if predict == "before" else pipeline.reservoir.experts
    assert not torch.equal(before, pipeline.reservoir.experts)
    method = make_method()
    method.space.load(0.6 * experts[0] + 0.4 * experts[1])
    torch.testing.assert_close(logits, method.predict(stream[1]))


@pytest.mark.parametrize("predict", ["before", "after"])
def test_without_ensembling_the_expert_predicts_alone(stream, predict):
    soft = Route(0, torch.tensor([0.6, 0.4]), is_new=False)
    new = Route(1, torch.tensor([0.0, 1.0]), is_new=True)
    router = FixedRouter([new, soft])
    pipeline = ReservoirPipeline(
        make_method(), router, init="source", predict=predict, ensemble=False
    )
    pipeline.step(stream[0])
    before = pipeline.reservoir.experts[0].clone()
    logits = pipeline.step(stream[1]).logits
    method = make_method()
    method.space.load(before if predict == "before" else pipeline.reservoir.experts[0])
    torch.testing.assert_close(logits, method.predict(stream[1]))


def test_progressive_update_keeps_the_experts_share_of_it(stream):
    soft = Route(0, torch.tensor([0.6, 0.4]), is_new=False)
    new = Route(1, torch.tensor([0.0, 1.0]), is_new=True)
    whole, part = (
        ReservoirPipeline(make_method(), FixedRouter([new, soft]), init="source", progressive=p)
        for p in (False, True)
    )
    for pipeline in (whole, part):
        pipeline.step(stream[0])
        before = pipeline.reservoir.experts[0].clone()
        pipeline.step(stream[1])
    change = whole.reservoir.experts[0] - before
    torch.testing.assert_close(part.reservoir.experts[0], before + 0.6 * change)


def test_incomplete_and_constant_batches_open_no_domain(encoder, stream, caplog):
    pipeline = make_reservoir(encoder, tau=1e-3)
    assert pipeline.step(stream[0][:1], complete=False).k == 1
    with caplog.at_level(logging.WARNING):
        assert pipeline.step(torch.full((2, 3, 8, 8), 0.5)).k == 1
    assert "constant color" in caplog.text
    assert pipeline.step(stream[0]).k == 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", [ReservoirPipeline, DomainResetPipeline])
def test_a_style_that_is_not_finite_never_reaches_the_router(stream, caplog, kind, value):
    styles = iter([torch.zeros(3), torch.full((3,), value), torch.zeros(3)])
    pipeline = kind(make_method(), make_router(torch.zeros(3), 5.0), lambda _: next(styles))
    pipeline.step(stream[0])
    before = copy.deepcopy(pipeline.router.state_dict())
    outcome = pipeline.step(stream[1])
    assert (outcome.route.index, outcome.k) == (0, 1)
    torch.testing.assert_close(pipeline.router.state_dict(), before, rtol=0, atol=0)
    assert "the style of the batch is not finite: it opens no domain" in caplog.text
    assert torch.isfinite(pipeline.step(stream[2]).logits).all()


def test_oracle_routes_by_domain(stream):
    pipeline = ReservoirPipeline(make_method(), OracleRouter(3))
    indices = [pipeline.step(x, domain="ab"[i % 2]).route.index for i, x in enumerate(stream)]
    assert indices == [1, 2] * 4


@pytest.mark.parametrize("kind", ["single", "reservoir"])
def test_resumed_stream_equals_the_uninterrupted_one(encoder, stream, kind):
    def make():
        return SingleModelPipeline(make_method()) if kind == "single" else make_reservoir(encoder)

    one, other = make(), make()
    for x in stream[:5]:
        one.step(x)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    for x in stream[5:] + stream:
        a, b = one.step(x), other.step(x)
        assert torch.equal(a.logits, b.logits)
        assert (a.route.index, a.k) == (b.route.index, b.k)
    assert one.method.counts == other.method.counts


@pytest.mark.parametrize("kind", ["single", "reservoir", "reset"])
def test_the_source_is_that_of_the_state_and_not_of_the_net(stream, kind):
    def make(shift):
        net = make_net()
        with torch.no_grad():
            net[1].bias.add_(shift)
        space = ParamSpace(net, norm_affine(net))
        method = Roid(net, space, partial(torch.optim.SGD, lr=0.1))
        if kind == "single":
            return SingleModelPipeline(method)
        if kind == "reset":
            return DomainResetPipeline(method, OracleRouter(4))
        return ReservoirPipeline(method, OracleRouter(4), init="source")

    one, other = make(0.0), make(5.0)
    for x, domain in zip(stream, "aabb", strict=False):
        one.step(x, domain=domain)
    held = other.method.source
    other.load_state_dict(one.state_dict())
    assert other.method.source is other.source is held
    assert torch.equal(other.source, one.source)
    assert torch.equal(other.predict_source(stream[0]), one.predict_source(stream[0]))
    for x, domain in zip(stream, "abccabcc", strict=True):  # c is opened from the source
        a, b = (pipeline.step(x, domain=domain).logits for pipeline in (one, other))
        assert torch.equal(a, b)


def test_state_of_another_pipeline_is_refused(encoder):
    single, reservoir = SingleModelPipeline(make_method()), make_reservoir(encoder)
    with pytest.raises(ReservoirError, match="switch the reservoir on or off"):
        reservoir.load_state_dict(single.state_dict())
    state = single.state_dict()
    state["parameters"] = ["other"]
    with pytest.raises(ReservoirError, match="use the same model and params"):
        single.load_state_dict(state)


def test_source_prediction_leaves_the_adaptation_alone(stream):
    pipeline = SingleModelPipeline(make_method())
    expected = pipeline.method.predict(stream[0])
    pipeline.step(stream[1])
    adapted = pipeline.method.space.snapshot()
    assert torch.equal(pipeline.predict_source(stream[0]), expected)
    assert torch.equal(pipeline.method.space.snapshot(), adapted)


def test_mistakes_are_explained():
    with pytest.raises(
        ReservoirError, match=r"unknown initialization of experts 'best'.*mi, mi_fresh, source"
    ):
        ReservoirPipeline(make_method(), OracleRouter(), init="best")
    with pytest.raises(ReservoirError, match="predict must be one of before, after, got 'later'"):
        SingleModelPipeline(make_method(), predict="later")


@pytest.mark.parametrize("kind", ["single", "reservoir"])
def test_optimizers_can_begin_anew_while_parameters_stay(stream, kind):
    method = make_method()
    if kind == "single":
        pipeline = SingleModelPipeline(method)
    else:
        pipeline = ReservoirPipeline(method, OracleRouter(4), init="source")
    for domain, x in zip("abab", stream, strict=False):
        pipeline.step(x, domain=domain)
    values = method.space.snapshot()
    assert method.optimizer.state[method.space.values]["step"] == (4 if kind == "single" else 2)
    pipeline.reset_optimizers()
    assert torch.equal(method.space.values, values)
    for domain in "ab":
        pipeline.step(stream[0], domain=domain)
        expected = 1 if kind == "reservoir" or domain == "a" else 2
        assert method.optimizer.state[method.space.values]["step"] == expected


@pytest.mark.parametrize("kind", ["single", "reservoir", "reset"])
def test_inference_uses_what_was_learned_and_changes_none_of_it(encoder, stream, kind):
    method = make_method()
    router = make_router(encoder(stream[0]), 5.0)
    pipelines = {
        "single": lambda: SingleModelPipeline(method),
        "reservoir": lambda: ReservoirPipeline(method, router, encoder),
        "reset": lambda: DomainResetPipeline(method, router, encoder),
    }
    pipeline = pipelines[kind]()
    for x in stream[:-2]:
        pipeline.step(x)
    saved = copy.deepcopy(pipeline.state_dict())
    k = pipeline.router.k if kind != "single" else 1
    outcomes = [pipeline.infer(x) for x in stream]
    assert all(outcome.k == k and not outcome.route.is_new for outcome in outcomes)
    after = pipeline.state_dict()
    torch.testing.assert_close(after["method"], saved["method"], rtol=0, atol=0)
    for part in ("single", "reservoir"):
        if part in saved:
            for old, new in zip(saved[part]["experts"], after[part]["experts"], strict=True):
                assert torch.equal(old["parameters"], new["parameters"])
    # The next prediction, which is made before its update, is the same one.
    route = outcomes[-1].route
    if kind == "single" or float(route.weights[route.index]) > 1 - 1e-6:
        assert torch.equal(pipeline.step(stream[-1]).logits, outcomes[-1].logits)
