"""Other devices and half precision: a classifier and its reservoir adapt and stay finite there."""

from __future__ import annotations

import pytest
import torch
from small_net import make_classifier

from mmseg_reservoir.cls import AdaptiveClassifier

METHODS = ["tent", "cotta_images", "roid"]
both_presets = pytest.mark.parametrize("preset", ["published", "robust"])
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU: torch.cuda.is_available() says no"
)


def adaptive(device: str, method: str = "tent", preset: str = "robust") -> AdaptiveClassifier:
    torch.manual_seed(0)
    source = [torch.rand(4, 3, 16, 16, device=device) for _ in range(20)]
    options = dict(type=method, optimizer=dict(type="SGD", lr=0.01))
    reservoir = dict(preset=preset, k_max=4, style=dict(weights="seeded"))
    return AdaptiveClassifier(make_classifier().to(device), options, reservoir, source)


def stream(device: str) -> list[torch.Tensor]:
    """Batches like the source, then dark ones: a second domain, whatever the router."""
    torch.manual_seed(1)
    batches = [torch.rand(4, 3, 16, 16) for _ in range(2)]
    dark = [torch.rand(4, 3, 16, 16) / 9 for _ in range(5)]
    return [batch.to(device) for batch in batches + dark]


def values(model: AdaptiveClassifier) -> torch.Tensor:
    return torch.cat([p.detach().float().flatten().cpu() for p in model.net.parameters()])


@both_presets
@pytest.mark.parametrize("method", METHODS)
def test_adapts_under_autocast_and_stays_finite(method, preset):
    model = adaptive("cpu", method, preset)
    before = values(model)
    for images in stream("cpu"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(images)
        assert torch.isfinite(logits).all()
    after = values(model)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)
    assert {p.dtype for p in model.net.parameters()} == {torch.float32}
    assert model.last.k == 2


@both_presets
def test_autocast_changes_no_route(preset):
    plain, half = (adaptive("cpu", preset=preset) for _ in range(2))
    for images in stream("cpu"):
        plain(images)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half(images)
        assert half.last.route.index == plain.last.route.index
    assert half.last.k == 2


@needs_gpu
@both_presets
@pytest.mark.parametrize("method", METHODS)
def test_gpu_adapts_as_the_cpu_does(method, preset):
    there, here = adaptive("cuda", method, preset), adaptive("cpu", method, preset)
    for far, near in zip(stream("cuda"), stream("cpu"), strict=True):
        logits = there(far)
        here(near)
        assert logits.device.type == "cuda"
        assert torch.isfinite(logits).all()
        assert there.last.route.index == here.last.route.index
    assert there.last.k == 2


@needs_gpu
@both_presets
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gpu_adapts_under_autocast(dtype, preset):
    model = adaptive("cuda", preset=preset)
    for images in stream("cuda"):
        with torch.autocast("cuda", dtype=dtype):
            assert torch.isfinite(model(images)).all()
    assert torch.isfinite(values(model)).all()


@needs_gpu
@both_presets
def test_a_state_from_the_gpu_goes_on_on_the_cpu(preset):
    there = adaptive("cuda", preset=preset)
    *batches, last = stream("cpu")
    for images in batches:
        there(images.cuda())
    here = adaptive("cpu", preset=preset)
    here.load_state_dict(there.state_dict())
    assert torch.allclose(here(last), there(last.cuda()).cpu(), atol=1e-3)
