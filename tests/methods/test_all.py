"""What holds for every registered method: a new one is tested here without a line to add."""

import copy
import io

import pytest
import torch
from small_net import make_method, make_router

from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline, StyleEncoder
from mmseg_reservoir.methods import METHODS, find_method

# An untrained net is sure of nothing: let the filters pass it.
OPTIONS = {
    "eta": dict(margin=2.0, d_margin=0.99),
    "eata": dict(margin=2.0, d_margin=0.99),
    "rdumb": dict(margin=2.0, d_margin=0.99, reset_every=3),
    "sar": dict(margin=2.0),
}
every_method = pytest.mark.parametrize("name", sorted(METHODS))
both_pipelines = pytest.mark.parametrize("kind", ["single", "reservoir"])


@pytest.fixture(scope="module")
def encoder():
    return StyleEncoder("seeded")


@pytest.fixture
def make(encoder, stream):
    def make(name, kind, dtype=torch.float32, k_max=4, prepare=True):
        method = make_method(find_method(name), dtype=dtype, **OPTIONS.get(name, {}))
        if prepare:
            method.prepare([x.to(dtype) for x in stream[:2]])
        if kind == "single":
            return SingleModelPipeline(method)
        router = make_router(encoder(stream[0]), 5.0, k_max)
        return ReservoirPipeline(method, router, encoder)

    return make


def predictions(pipeline, batches):
    return torch.stack([pipeline.step(x).logits for x in batches])


@every_method
@both_pipelines
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adapts_and_stays_finite(make, stream, name, kind, dtype):
    pipeline = make(name, kind, dtype)
    batches = [x.to(dtype) for x in stream]
    logits = predictions(pipeline, batches)
    assert logits.dtype == pipeline.method.space.values.dtype == dtype
    assert torch.isfinite(logits).all()
    assert not logits.requires_grad
    counts = pipeline.method.counts
    assert counts["updates"] + counts["skipped"] == len(batches)
    assert (counts["updates"] > 0) == (name != "source")
    source = torch.stack([pipeline.predict_source(x) for x in batches])
    assert torch.allclose(logits, source, rtol=0, atol=1e-5) == (name == "source")


@every_method
@both_pipelines
def test_is_deterministic(make, stream, name, kind):
    one, other = make(name, kind), make(name, kind)
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
@both_pipelines
def test_resumes_from_a_file_as_if_nothing_had_happened(make, stream, name, kind):
    one, other = make(name, kind), make(name, kind, prepare=False)
    predictions(one, stream[:5])
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    rest = stream[5:] + stream
    assert torch.equal(predictions(other, rest), predictions(one, rest))
    assert other.method.counts == one.method.counts


@every_method
def test_a_copied_domain_state_goes_its_own_way(make, stream, name):
    method = make(name, "single").method
    for x in stream[:2]:
        method.adapt(x)
    kept = method.space.snapshot(), copy.deepcopy(method.domain_state())
    expected = [method.adapt(x) for x in stream]
    method.load(*kept)
    assert torch.equal(torch.stack([method.adapt(x) for x in stream]), torch.stack(expected))
