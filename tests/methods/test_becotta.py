import math

import pytest
import torch
from logit_net import as_image, frozen, logit_method, some_logits

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.becotta import Becotta


def passing(logits, warm, margin=0.4, confidence=0.69):
    """Entropies and choice of samples, one by one."""
    p = logits.softmax(1)
    entropies = -(p * p.log()).sum(1)
    chosen = [
        float(h) < margin * math.log(4) and float(w.softmax(0).max()) > confidence
        for h, w in zip(entropies, warm, strict=True)
    ]
    return entropies, torch.tensor(chosen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_is_the_mean_entropy_of_pixels_that_pass_both_filters(dtype):
    method = logit_method(Becotta, dtype)
    method.space.load(method.source + torch.tensor([0.1, 0, 0, 0, 2, 0, -1, 0], dtype=dtype))
    logits = some_logits(count=40, dtype=dtype)
    adapted = logits * torch.tensor([1.1, 1, 1, 1]).to(dtype) + torch.tensor([2, 0, -1, 0])
    entropies, chosen = passing(adapted, logits)
    sure = passing(adapted, adapted)[1]
    assert 0 < chosen.sum() < sure.sum()  # both filters matter
    prediction, loss = method.loss(logits)
    torch.testing.assert_close(prediction, adapted)
    torch.testing.assert_close(loss, entropies[chosen].mean())
    assert method.counts["pixels"] == 40
    assert method.counts["selected"] == int(chosen.sum())


def test_the_warm_up_model_is_asked_and_the_adapted_one_goes_on():
    method = logit_method(Becotta)
    for seed in range(3):
        method.adapt(some_logits(seed))
    assert method.counts["updates"] == 3
    assert not torch.equal(method.space.values, method.source)
    before = method.space.snapshot()
    method.loss(some_logits(5))
    assert torch.equal(method.space.values, before)


def test_pixels_are_samples():
    flat, image = logit_method(Becotta), logit_method(Becotta)
    for seed in range(3):
        logits = some_logits(seed)
        flat.adapt(logits)
        image.adapt(as_image(logits))
    torch.testing.assert_close(image.space.values, flat.space.values)
    assert image.counts == flat.counts


@pytest.mark.parametrize("options", [dict(margin=1e-9), dict(confidence=0.999999)])
def test_where_no_pixel_passes_nothing_changes(options):
    method = logit_method(Becotta, **options)
    state = frozen(method.domain_state())
    prediction, loss = method.loss(some_logits())
    assert loss is None
    assert torch.equal(prediction, some_logits())
    method.adapt(some_logits())
    assert torch.equal(method.space.values, method.source)
    assert frozen(method.domain_state()) == state
    assert method.counts["skipped"] == 1
    assert method.counts["selected"] == method.counts["updates"] == 0


def test_filters_can_be_switched_off():
    method, logits = logit_method(Becotta, margin=math.inf, confidence=0.0), some_logits()
    calls = []
    forward = method.forward
    method.forward = lambda inputs: calls.append(1) or forward(inputs)
    _, loss = method.loss(logits)
    torch.testing.assert_close(loss, passing(logits, logits)[0].mean())
    assert len(calls) == 1  # no pass through the warm-up model
    logit_method(Becotta).loss(logits)


def test_broken_pixels_do_not_break_the_parameters():
    method, logits = logit_method(Becotta), some_logits()
    logits[0] = float("nan")
    method.adapt(logits)
    assert torch.equal(method.space.values, method.source)
    assert method.rejected == 1


@pytest.mark.parametrize("options", [dict(margin=0), dict(confidence=1.0), dict(confidence=-0.1)])
def test_thresholds_that_nothing_can_pass_are_refused(options):
    with pytest.raises(ReservoirError, match=r"Becotta\.(margin|confidence) must be a number"):
        logit_method(Becotta, **options)
