"""What holds for every registered method: a new one is tested here without a line to add.

A method runs around a segmentation net, a classifier, or both, as its ``supports`` says; one that
adapts prompts, around a small transformer. What holds in a reservoir holds for the plain method: in
a reservoir of one it is the same, bit for bit.
"""

import copy
import io
from functools import partial

import pytest
import torch
from elsewhere import sent
from small_net import make_method, make_router
from small_vit import prompt_method

from mmseg_reservoir.config.schema import parameters_of, pick
from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.params import ParamSpace
from mmseg_reservoir.registry import find, table
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.style import StyleEncoder

# An untrained net is sure of nothing: let the filters pass it. The stream is no [0, 1] images, and
# of few samples: teachers have to hurry.
NO_CLIP = dict(clip=False)
OPTIONS = {
    "becotta": dict(margin=2.0, confidence=0.0),
    "cola": dict(margin=2.0, d_margin=2.0),
    "cotta_images": dict(views=2, momentum=0.5, restore=0.2, augment=NO_CLIP),
    "dpcore": dict(first_steps=3, alpha=0.5),
    "eta": dict(margin=2.0, d_margin=2.0),
    "eata": dict(margin=2.0, d_margin=2.0),
    "petta": dict(capacity=16, update_every=4, alpha_0=0.5, augment=NO_CLIP),
    "rdumb": dict(margin=2.0, d_margin=2.0, reset_every=3),
    "rotta": dict(capacity=16, update_every=4, nu=0.5, augment=NO_CLIP),
    "sar": dict(margin=2.0),
    "vpt": dict(first_steps=3),
}
PROMPT_METHODS = ("dpcore", "vpt")
LEARN_FROM_MEMORY = ("petta-images", "rotta-images")
STILL = (
    "align-images",
    "align-pixels",
    "norm-images",
    "norm-pixels",
    "source-images",
    "source-pixels",
)
METHODS = table("method")
NAMES = [f"{name}-{what}" for name, cls in sorted(METHODS.items()) for what in cls.supports]
every_method = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def encoder():
    return StyleEncoder("seeded")


@pytest.fixture
def make(encoder, stream):
    def make(name, kind, dtype=torch.float32, k_max=4, prepare=True):
        name, supports = name.split("-")
        build = prompt_method if name in PROMPT_METHODS else partial(make_method, supports=supports)
        method = build(find("method", name), dtype=dtype, **OPTIONS.get(name, {}))
        if prepare:
            method.prepare([x.to(dtype) for x in stream[:2]])
        if kind == "single":
            return SingleModelPipeline(method)
        router = make_router(encoder(stream[0]), 5.0, k_max)
        return ReservoirPipeline(method, router, encoder)

    return make


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_option_can_be_written_in_a_config(name):
    given = ("forward", "space", "optimizer")
    parameters = parameters_of(METHODS[name])
    assert set(given) <= set(parameters)
    own = {n: p.default for n, p in parameters.items() if n not in given}
    pick("method", {"type": name, **own}, "method", injected=given)  # checks their types
    # Written out in full, it is the same method.
    build = prompt_method if name in PROMPT_METHODS else make_method
    images = {} if name in PROMPT_METHODS else {"supports": METHODS[name].supports[0]}
    plain, full = build(METHODS[name], **images), build(METHODS[name], **images, **own)
    for attribute, value in vars(plain).items():
        if isinstance(value, (int, float, str)):
            assert getattr(full, attribute) == value


def predictions(pipeline, batches):
    return torch.stack([pipeline.step(x).logits for x in batches])


@every_method
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adapts_and_stays_finite(make, stream, name, dtype):
    pipeline = make(name, "reservoir", dtype)
    batches = [x.to(dtype) for x in stream]
    logits = predictions(pipeline, batches)
    assert logits.dtype == pipeline.method.space.values.dtype == dtype
    assert torch.isfinite(logits).all()
    assert not logits.requires_grad
    counts = pipeline.method.counts
    assert counts["updates"] + counts["skipped"] == len(batches)
    still = name in STILL
    assert (counts["updates"] == 0) == still
    source = torch.stack([pipeline.predict_source(x) for x in batches])
    assert torch.allclose(logits, source, rtol=0, atol=1e-5) == still


@every_method
def test_is_deterministic(make, stream, name):
    one, other = make(name, "reservoir"), make(name, "reservoir")
    torch.manual_seed(1)
    first = predictions(one, stream)
    torch.manual_seed(2)
    assert torch.equal(predictions(other, stream), first)


@every_method
def test_in_a_reservoir_of_one_it_is_the_plain_method_bit_for_bit(make, stream, name):
    plain, reservoir = make(name, "single"), make(name, "reservoir", k_max=1)
    assert torch.equal(predictions(plain, stream), predictions(reservoir, stream))
    assert torch.equal(plain.method.space.values, reservoir.method.space.values)


@every_method
def test_resumes_from_a_file_as_if_nothing_had_happened(make, stream, name):
    one, other = make(name, "reservoir"), make(name, "reservoir", prepare=False)
    predictions(one, stream[:5])
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    rest = stream[5:] + stream
    assert torch.equal(predictions(other, rest), predictions(one, rest))
    assert other.method.counts == one.method.counts


@every_method
def test_resumes_from_a_state_that_was_loaded_to_another_device(make, stream, name):
    one, other = make(name, "reservoir"), make(name, "reservoir", prepare=False)
    predictions(one, stream[:5])
    other.load_state_dict(sent(one.state_dict()))
    assert torch.equal(predictions(other, stream), predictions(one, stream))


@every_method
def test_resumes_around_a_net_that_began_with_other_values(make, stream, monkeypatch, name):
    one = make(name, "reservoir")
    predictions(one, stream[:5])
    begin = ParamSpace.__init__

    def begin_elsewhere(self, model, selected):
        for parameter in selected.values():
            parameter.data += 1
        begin(self, model, selected)

    monkeypatch.setattr(ParamSpace, "__init__", begin_elsewhere)
    other = make(name, "reservoir", prepare=False)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.predict_source(stream[0]), one.predict_source(stream[0]))
    assert torch.equal(predictions(other, stream), predictions(one, stream))
    for pipeline in (one, other):
        pipeline.method.reset()
    assert torch.equal(other.method.predict(stream[0]), one.method.predict(stream[0]))


@every_method
def test_looking_changes_nothing(make, stream, name):
    one, other = make(name, "reservoir"), make(name, "reservoir")
    for x in stream:
        other.predict_source(x)
        assert torch.equal(one.step(x).logits, other.step(x).logits)


@every_method
def test_experts_rest_while_another_one_adapts(make, stream, name):
    method = make(name, "single").method
    pipeline = ReservoirPipeline(method, OracleRouter(4))
    for x in stream[:4]:
        for domain in ("fog", "night"):
            pipeline.step(x, domain=domain)
    parameters, state = copy.deepcopy(pipeline.reservoir.checkout(1))
    before = pipeline.reservoir.experts[2].clone()
    for x in stream:
        pipeline.step(x, domain="night")
    torch.testing.assert_close(pipeline.reservoir.experts[1], parameters, rtol=0, atol=0)
    torch.testing.assert_close(pipeline.reservoir.checkout(1)[1], state, rtol=0, atol=0)
    moved = not torch.equal(pipeline.reservoir.experts[2], before)
    assert moved == (name not in STILL)


@every_method
def test_a_copied_domain_state_goes_its_own_way(make, stream, name):
    method = make(name, "single").method
    for x in stream[:2]:
        method.adapt(x)
    kept = method.space.snapshot(), copy.deepcopy(method.domain_state())
    shared = method.state_dict()
    expected = [method.adapt(x) for x in stream]
    method.load(*kept)
    method.load_state_dict(shared)
    assert torch.equal(torch.stack([method.adapt(x) for x in stream]), torch.stack(expected))


# A memory does not store a broken batch, but its other images are still learned from.
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LEARN_FROM_MEMORY])
def test_a_broken_batch_leaves_no_trace_in_the_expert(make, stream, name):
    method = make(name, "single").method
    method.adapt(stream[0])
    values = method.space.snapshot()
    student = method.state.get("student", values).clone()
    method.adapt(torch.full_like(stream[0], torch.nan))
    assert torch.equal(method.space.values, values)
    assert torch.equal(method.state.get("student", values), student)
    assert torch.isfinite(method.predict(stream[0])).all()
