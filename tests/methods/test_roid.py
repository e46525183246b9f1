import math

import pytest
import torch
from logit_net import as_image, frozen, logit_method, some_logits

from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.methods import Roid
from mmseg_reservoir.routing import OracleRouter


def plain_loss(logits, average, divisor):
    """The loss with its weights, one sample at a time."""
    p = logits.softmax(1)
    diversity = [1 - float(row @ average / (row.norm() * average.norm())) for row in p]
    certainty = [float((row * row.log()).sum()) for row in p]
    mean = sum(diversity) / len(diversity)
    total, kept = 0.0, 0
    for row, d, c in zip(p, diversity, certainty, strict=True):
        if d < mean:
            continue
        d = (d - min(diversity)) / (max(diversity) - min(diversity))
        c = (c - min(certainty)) / (max(certainty) - min(certainty))
        q = row.clamp(max=0.99)
        ratio = -sum(float(v * math.log(v / (1 - v) + 1e-5)) for v in q)
        total += math.exp(3 * d * c) * ratio
        kept += 1
    assert 0 < kept < len(p)
    return total / divisor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_size", [None, 16])
def test_loss_and_average_equal_a_few_plain_lines(dtype, batch_size):
    method = logit_method(Roid, dtype, batch_size=batch_size)
    average = torch.full((4,), 0.25, dtype=dtype)
    for seed in range(3):
        logits = some_logits(seed, dtype=dtype)
        prediction, loss = method.loss(logits)
        assert torch.equal(prediction, logits)
        expected = plain_loss(logits, average, batch_size or 12)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)
        average = 0.9 * average + 0.1 * logits.softmax(1).mean(0)
        torch.testing.assert_close(method.state["mean_prediction"], average)


def test_pixels_are_samples():
    flat, image = logit_method(Roid), logit_method(Roid)
    for seed in range(3):
        logits = some_logits(seed)
        flat.adapt(logits)
        image.adapt(as_image(logits))
        torch.testing.assert_close(image.space.values, flat.space.values)


def test_every_step_goes_a_little_back_to_the_source():
    plain, ensembled = logit_method(Roid, alpha=1.0), logit_method(Roid, alpha=0.75)
    for method in (plain, ensembled):
        method.adapt(some_logits())
    assert not torch.equal(plain.space.values, plain.source)
    expected = 0.75 * plain.space.values + 0.25 * plain.source
    torch.testing.assert_close(ensembled.space.values, expected)


def test_the_average_belongs_to_the_domain():
    method = logit_method(Roid)
    first, second = method.domain_state(), method.fresh_domain_state()
    method.adapt(some_logits(0))
    seen = frozen(method.domain_state())
    method.load_domain_state(second)
    method.adapt(some_logits(1))
    assert frozen(first) == seen
    assert frozen(second)["mean_prediction"] != seen["mean_prediction"]
    assert method.inherit_domain_state(first)["mean_prediction"] is None


def test_a_single_sample_and_equal_samples_have_finite_weights():
    for logits in (some_logits(count=1), some_logits(count=1).expand(5, 4)):
        method = logit_method(Roid)
        method.adapt(logits)
        assert method.counts["updates"] == 1
        assert torch.isfinite(method.space.values).all()


def test_a_broken_batch_is_skipped_and_forgotten():
    method = logit_method(Roid)
    method.adapt(some_logits(0))
    parameters, state = method.space.snapshot(), frozen(method.domain_state())
    logits = some_logits(1)
    logits[0] = float("nan")
    method.adapt(logits)
    assert torch.equal(method.space.snapshot(), parameters)
    assert frozen(method.domain_state()) == state
    assert method.rejected == 1


def test_prior_correction_favours_frequent_classes():
    method, logits = logit_method(Roid, prior_correction=True), some_logits()
    prior = logits.softmax(1).mean(0)
    s = max(1 / 12, 1 / 4) / prior.max()
    corrected = method.correct(logits)
    torch.testing.assert_close(corrected, logits * (prior + s) / (1 + 4 * s))
    torch.testing.assert_close(method.correct(as_image(logits)), as_image(corrected))


@pytest.mark.parametrize(
    "pipeline", [SingleModelPipeline, lambda method: ReservoirPipeline(method, OracleRouter(2))]
)
def test_only_the_returned_prediction_is_corrected(pipeline):
    raw, corrected = logit_method(Roid), logit_method(Roid, prior_correction=True)
    pipelines = pipeline(raw), pipeline(corrected)
    for seed in range(3):
        image = as_image(some_logits(seed))
        plain, returned = (each.step(image, domain="fog").logits for each in pipelines)
        assert torch.equal(returned, corrected.correct(plain))
        assert not torch.equal(returned, plain)
        assert torch.equal(raw.predict(image), corrected.predict(image))
    assert torch.equal(raw.space.values, corrected.space.values)
