import math

import pytest
import torch
from logit_net import frozen, logit_method, some_logits
from small_vit import make_vit
from torch import nn
from torch.nn.modules import module as torch_module

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.cola import Cola, gaussian_divergence, stem_statistics
from mmseg_reservoir.methods.eta import Eta

FILTERS = dict(margin=0.4, d_margin=0.9)
X = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
NEVER = float("inf")  # a threshold that no shift exceeds


def moments(logits):
    return logits.mean(0), ((logits - logits.mean(0)) ** 2).mean(0)


def divergence(one, other):
    """KL(p||q) + KL(q||p) of Gaussians, by torch.distributions."""
    p, q = (torch.distributions.Normal(m, v.sqrt()) for m, v in (one, other))
    kl = torch.distributions.kl_divergence
    return float((kl(p, q) + kl(q, p)).mean())


def eta_loss(logits, theta, average):
    z = logits * theta[:4] + theta[4:]
    p = z.softmax(1)
    h = -(p * p.log()).sum(1)
    limit = 0.4 * math.log(4)
    chosen = h < limit
    if average is not None:
        cosine = (p @ average) / (p.norm(dim=1) * average.norm())
        chosen = chosen & (cosine < 0.9)
    mean = p[chosen].mean(0).detach()
    average = mean if average is None else 0.9 * average + 0.1 * mean
    return ((limit - h[chosen].detach()).exp() * h[chosen]).mean(), average


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("start", ["uniform", "similarity"])
def test_equals_plain_lines_with_autograd_through_the_weights(dtype, start):
    method = logit_method(
        Cola, dtype, threshold=1.0, alpha_lr=5.0, start=start, temperature=0.7, **FILTERS
    )
    # Three domains, of two batches each, then the first again.
    shifts = [0.0, 0.0, 6.0, 6.0, -7.0, -7.0, 0.0, 0.0]
    source = torch.tensor([1.0] * 4 + [0.0] * 4, dtype=dtype)
    vectors, stems = [torch.zeros_like(source)], []
    u, velocity, alpha = (
        torch.zeros_like(source),
        torch.zeros_like(source),
        torch.zeros(1).to(dtype),
    )
    average, now, changes = None, None, 0
    for seed, shift in enumerate(shifts):
        logits = some_logits(seed, count=40, dtype=dtype) + shift * torch.tensor([1, 1, 0, 0])
        mean, var = moments(logits)
        if now is not None and divergence(now, (mean, var)) > 1.0:
            theta = source + alpha.softmax(0) @ torch.stack(vectors) + u
            vectors.append(theta - source)
            stems.append(now)
            u, velocity = torch.zeros_like(u), torch.zeros_like(u)
            alpha = torch.zeros(len(vectors), dtype=dtype)
            if start == "similarity":
                far = [1.0] + [divergence(s, (mean, var)) for s in stems]
                alpha = -torch.tensor(far, dtype=dtype) / 0.7
            average, now, changes = None, None, changes + 1
        now = (
            (mean, var)
            if now is None
            else tuple(0.8 * a + 0.2 * b for a, b in zip(now, (mean, var), strict=True))
        )
        own, weights = u.clone().requires_grad_(), alpha.clone().requires_grad_()
        theta = source + weights.softmax(0) @ torch.stack(vectors) + own
        loss, average = eta_loss(logits, theta, average)
        du, da = torch.autograd.grad(loss, [own, weights])
        velocity = 0.9 * velocity + du
        u, alpha = u - 0.1 * velocity, alpha - 5.0 * da
        expected = source + alpha.softmax(0) @ torch.stack(vectors) + u

        prediction = method.adapt(logits)
        torch.testing.assert_close(prediction, logits * theta[:4] + theta[4:])
        torch.testing.assert_close(method.space.snapshot(), expected)
        torch.testing.assert_close(method.state["alpha"], alpha)
        torch.testing.assert_close(method.state["stem"], torch.stack(now))
        torch.testing.assert_close(method.state["mean_prediction"], average)
    assert changes == method.counts["shifts"] == 3
    torch.testing.assert_close(method.state["vectors"], torch.stack(vectors))
    uneven = method.state["alpha"].softmax(0)
    assert uneven.max() - uneven.min() > 1e-3  # the weights were really learned


def test_where_the_domain_stays_it_is_eta():
    cola, eta = logit_method(Cola, threshold=NEVER, **FILTERS), logit_method(Eta, **FILTERS)
    for seed in range(5):
        logits = some_logits(seed)
        assert torch.equal(cola.adapt(logits), eta.adapt(logits))
    assert torch.equal(cola.space.values, eta.space.values)
    assert cola.counts["shifts"] == 0


def test_knowledge_of_a_domain_that_returns_is_found_again():
    method = logit_method(Cola, threshold=1.0, start="similarity", temperature=0.1, **FILTERS)
    first, second = some_logits(0, count=40), some_logits(1, count=40) + 9
    for _ in range(3):
        method.adapt(first)
    learned = method.space.snapshot()
    method.adapt(second)
    method.loss(first)  # begins the domain, without a step
    assert method.counts["shifts"] == 2
    assert method.state["alpha"].argmax() == 1
    torch.testing.assert_close(method.space.snapshot(), learned, rtol=0, atol=1e-3)


def test_a_limit_drops_the_oldest_domain_and_keeps_the_source():
    method = logit_method(Cola, threshold=1.0, limit=2, **FILTERS)
    kept = []
    for seed in range(5):
        method.adapt(some_logits(seed, count=40) + 9 * (seed % 2))
        kept.append(method.space.snapshot() - method.source)
    assert method.counts["shifts"] == 4
    expected = torch.stack([torch.zeros(8), kept[2], kept[3]])
    torch.testing.assert_close(method.state["vectors"], expected)
    assert len(method.state["stems"]) == 2
    assert len(method.state["alpha"]) == 3


def test_knowledge_belongs_to_the_domain():
    method = logit_method(Cola, threshold=1.0, **FILTERS)
    first, second = method.domain_state(), method.fresh_domain_state()
    for seed in range(3):
        method.adapt(some_logits(seed, count=40) + 9 * (seed % 2))
    seen = frozen(method.domain_state())
    assert len(seen["vectors"]) == 3
    method.load(method.source, second)
    method.adapt(some_logits(4, count=40) - 9)
    assert frozen(first) == seen
    assert len(second["vectors"]) == 1
    inherited = method.inherit_domain_state(first)
    assert len(inherited["vectors"]) == 1
    assert inherited["stem"] is inherited["stems"] is None
    assert "momentum_buffer" in inherited["optimizer"]


def test_a_broken_batch_is_no_domain():
    method = logit_method(Cola, threshold=1.0, **FILTERS)
    method.adapt(some_logits(0))
    before, stem = method.space.snapshot(), method.state["stem"].clone()
    method.adapt(some_logits(1) * float("nan"))
    assert torch.equal(method.space.values, before)
    assert torch.equal(method.state["stem"], stem)
    assert method.counts["shifts"] == 0


def test_mistakes_are_explained():
    for options in (dict(threshold=-1), dict(temperature=0), dict(limit=0)):
        with pytest.raises(ReservoirError, match=r"Cola\.(threshold|temperature|limit) must be"):
            logit_method(Cola, **options)
    with pytest.raises(ReservoirError, match="one of uniform, similarity, got 'same'"):
        logit_method(Cola, start="same")


@torch.no_grad()
def test_the_stem_of_a_transformer_is_the_patch_embedding():
    net = make_vit()
    y = net.patch_embed(X)
    found = stem_statistics(net, X)
    torch.testing.assert_close(found[0], y.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(found[1], y.var(dim=(0, 2, 3), correction=0))


def test_the_rest_of_the_model_is_not_run_and_no_hook_stays():
    class Bomb(nn.Module):
        def forward(self, x):
            raise AssertionError("not reached")

    net = nn.Sequential(nn.Identity(), nn.Conv2d(3, 4, 3), Bomb())
    assert stem_statistics(lambda x: net(x), X).shape == (2, 4)
    assert not torch_module._global_forward_hooks
    with pytest.raises(AssertionError, match="not reached"):
        net(X)
    with pytest.raises(AssertionError):
        stem_statistics(Bomb(), X)
    assert not torch_module._global_forward_hooks


def test_without_a_convolution_the_stem_is_the_inputs():
    inputs = X.mean(dim=(2, 3))
    found = stem_statistics(nn.Linear(3, 2), inputs)
    torch.testing.assert_close(found[0], inputs.mean(dim=0))
    torch.testing.assert_close(stem_statistics(nn.Identity(), X)[0], X.mean(dim=(0, 2, 3)))


def test_divergence_is_that_of_torch_distributions():
    mean, var = torch.randn(2, 5), torch.rand(2, 5) + 0.1
    p, q = (torch.distributions.Normal(mean[i], var[i].sqrt()) for i in range(2))
    kl = torch.distributions.kl_divergence
    one, other = (torch.stack([mean[i], var[i]]) for i in range(2))
    expected = (kl(p, q) + kl(q, p)).mean()
    torch.testing.assert_close(gaussian_divergence(one, other), expected)
    torch.testing.assert_close(gaussian_divergence(torch.stack([one, other]), other)[0], expected)
    assert gaussian_divergence(one, one) == pytest.approx(0, abs=1e-6)


def test_a_covered_lens_has_a_finite_divergence():
    flat = stem_statistics(nn.Identity(), torch.zeros(2, 3, 4, 4))
    assert torch.isfinite(gaussian_divergence(flat, stem_statistics(nn.Identity(), X)))
