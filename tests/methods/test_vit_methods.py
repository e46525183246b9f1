"""Methods on a vision transformer: beside test_all.py, the true source and the adapter."""

from functools import partial

import pytest
import torch
from small_net import make_router
from small_vit import make_vit, prompt_method

from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.methods.cola import Cola
from mmseg_reservoir.methods.dpcore import DPCore
from mmseg_reservoir.methods.vpt import Vpt
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.style import StyleEncoder


def cola(dtype):
    net = make_vit(dtype=dtype)
    space = ParamSpace(net, norm_affine(net))
    return Cola(net, space, partial(torch.optim.Adam, lr=0.05), margin=2.0, d_margin=0.99)


MAKERS = {
    "vpt": lambda dtype: prompt_method(Vpt, dtype=dtype, first_steps=3),
    "vpt-entropy": lambda dtype: prompt_method(Vpt, dtype=dtype, loss="entropy"),
    "dpcore": lambda dtype: prompt_method(DPCore, dtype=dtype, first_steps=3, alpha=0.5),
    "cola": cola,
}
every_method = pytest.mark.parametrize("name", sorted(MAKERS))
both_pipelines = pytest.mark.parametrize("kind", ["single", "reservoir"])


@pytest.fixture(scope="module")
def encoder():
    return StyleEncoder("seeded")


@pytest.fixture
def make(encoder, stream):
    def make(name, kind, dtype=torch.float32, k_max=4, prepare=True):
        method = MAKERS[name](dtype)
        if prepare:
            method.prepare([x.to(dtype) for x in stream[:2]])
        if kind == "single":
            return SingleModelPipeline(method)
        return ReservoirPipeline(method, make_router(encoder(stream[0]), 5.0, k_max), encoder)

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
    assert counts["updates"] > 0
    net = make_vit(dtype=dtype)
    with torch.no_grad():
        source = torch.stack([net(x) for x in batches])
    found = torch.stack([pipeline.predict_source(x) for x in batches])
    torch.testing.assert_close(found, source)
    assert not torch.allclose(logits, source, rtol=0, atol=1e-5)
    if kind == "reservoir":
        assert len(pipeline.reservoir) > 1


@pytest.mark.parametrize("name", ["vpt", "dpcore"])
def test_a_classifier_adapts_prompts_in_a_reservoir(stream, name):
    model = AdaptiveClassifier(
        make_vit(),
        method=dict(type=name, first_steps=2, optimizer=dict(type="AdamW", lr=0.1)),
        reservoir=dict(preset="published", k_max=3, style=dict(weights="seeded")),
        source=stream[1::2],
        params=dict(type="prompt", count=3),
        images=(0.5, 0.02),
    )
    logits = torch.stack([model(x) for x in stream])
    assert logits.shape == (8, 2, 5)
    assert torch.isfinite(logits).all()
    assert model.last.k > 1
    assert model.method.counts["updates"] == len(stream)
    torch.testing.assert_close(model.pipeline.predict_source(stream[0]), make_vit()(stream[0]))
