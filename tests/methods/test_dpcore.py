from functools import partial

import pytest
import torch
from small_vit import make_vit, prompt_method

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.dpcore import DPCore
from mmseg_reservoir.params.prompt import prompt_space

ALWAYS, NEVER = float("inf"), -1.0  # ratios that make every batch known, or new


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(6, 3, 8, 8, generator=generator) * (1 + i) + i for i in range(5)]


def make(images, lr=0.05, **options):
    method = prompt_method(DPCore, lr=lr, first_steps=4, **options)
    method.prepare(images[:1])
    return method


def features(net, images, prompts=None):
    x = net.tokens(images)
    if prompts is not None:
        x = torch.cat([x[:, :1], prompts.view(3, 12).expand(len(x), -1, -1), x[:, 1:]], dim=1)
    for block in net.blocks:
        x = block(x)
    return net.norm(x)[:, 0]


def distance(f, mean, std):
    return (f.mean(0) - mean).norm() + (f.std(0) - std).norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_plain_lines(images, dtype):
    """Weights, decision, learning from scratch and update, over a stream with both cases."""
    images = [x.to(dtype) for x in images]
    stream = [images[1], images[1] + 0.1, images[4], images[1], images[4] + 0.2, images[0]]
    torch_net = make_vit(dtype=dtype)
    space = prompt_space(torch_net, count=3)
    optimizer = partial(torch.optim.SGD, lr=0.3, momentum=0.9)
    method = DPCore(
        torch_net, space, optimizer, temperature=2.0, ratio=0.9, alpha=0.3, first_steps=6
    )
    method.prepare(images[:1])
    initial = space.snapshot()

    net = make_vit(dtype=dtype)
    with torch.no_grad():
        f = features(net, images[0])
        source = f.mean(0), f.std(0)
    core, cases = [], []

    def descend(prompt, x, steps):
        prompt, velocity = prompt.clone(), torch.zeros_like(prompt)
        for _ in range(steps):
            p = prompt.clone().requires_grad_()
            f = features(net, x, p)
            velocity = 0.9 * velocity + torch.autograd.grad(distance(f, *source), p)[0]
            prompt = prompt - 0.3 * velocity
        return prompt, net.head(f).detach()

    for x in stream:
        with torch.no_grad():
            f = features(net, x)
            mean, std = f.mean(0), f.std(0)
            known = False
            if core:
                scores = torch.stack([-(mean - m).norm() - (std - s).norm() for m, s, _ in core])
                e = (scores / 2.0).exp()
                weights = e / e.sum()
                weighted = sum(w * p for w, (_, _, p) in zip(weights, core, strict=True))
                ratio = distance(features(net, x, weighted), *source) / distance(f, *source)
                known = bool(ratio <= 0.9)
        if known:
            prompt, logits = descend(weighted, x, 1)
            core = [
                tuple(a + 0.3 * w * (b - a) for a, b in zip(old, (mean, std, prompt), strict=True))
                for w, old in zip(weights, core, strict=True)
            ]
        else:
            prompt, logits = descend(initial, x, 6)
            core.append((mean, std, prompt))
        cases.append(known)

        torch.testing.assert_close(method.adapt(x), logits, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(space.snapshot(), prompt, rtol=1e-4, atol=1e-5)
        stored = torch.stack([torch.stack([m, s]) for m, s, _ in core])
        torch.testing.assert_close(method.state["statistics"], stored, rtol=1e-4, atol=1e-5)
        kept = torch.stack([p for *_, p in core])
        torch.testing.assert_close(method.state["prompts"], kept, rtol=1e-4, atol=1e-5)
    assert cases[0] is False
    assert any(cases)
    assert sum(not known for known in cases) > 1
    assert method.counts["reused"] == sum(cases)
    assert method.counts["learned"] == len(cases) - sum(cases)
    assert method.counts["updates"] == len(cases)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elements_are_mixed_and_moved_by_their_weights(images, dtype):
    images = [x.to(dtype) for x in images]
    method = prompt_method(
        DPCore, dtype=dtype, ratio=NEVER, first_steps=4, temperature=0.5, alpha=0.4
    )
    method.prepare(images[:1])
    for x in images[1:4]:
        method.adapt(x)
    prompts, stored = method.state["prompts"].clone(), method.state["statistics"].clone()
    method.ratio = ALWAYS
    x, net = images[1] + 0.3, make_vit(dtype=dtype)
    with torch.no_grad():
        f = features(net, x)
        seen = torch.stack([f.mean(0), f.std(0)])
        near = [float(torch.exp(-distance(f, *element) / 0.5)) for element in stored]
        weights = [value / sum(near) for value in near]
        mixed = sum(w * p for w, p in zip(weights, prompts, strict=True))
        logits = net.head(features(net, x, mixed))
    assert max(weights) > 0.4
    assert min(weights) < 0.3
    torch.testing.assert_close(method.adapt(x), logits)
    new = method.space.snapshot()
    assert not torch.allclose(new, mixed)
    for j, w in enumerate(weights):
        expected = (1 - 0.4 * w) * prompts[j] + 0.4 * w * new
        torch.testing.assert_close(method.state["prompts"][j], expected)
        expected = (1 - 0.4 * w) * stored[j] + 0.4 * w * seen
        torch.testing.assert_close(method.state["statistics"][j], expected)


def test_every_new_prompt_begins_at_the_same_place(images):
    one, other = make(images, ratio=NEVER), make(images, ratio=NEVER)
    for x in images[1:4]:
        one.adapt(x)
    other.adapt(images[3])
    torch.testing.assert_close(one.state["prompts"][2], other.state["prompts"][0])
    assert one.counts["learned"] == 3
    assert one.counts["steps"] == 3 * 4


def test_with_an_alpha_of_one_an_element_becomes_what_was_learned_last(images):
    method = make(images, ratio=ALWAYS, alpha=1.0)
    for x in images[1:4]:
        method.adapt(x)  # one element of weight 1, which keeps nothing of itself
    assert len(method.state["prompts"]) == 1
    torch.testing.assert_close(method.state["prompts"][0], method.space.snapshot())


def test_a_full_coreset_takes_every_batch_for_known(images):
    method = make(images, ratio=NEVER, limit=2)
    for x in images:
        method.adapt(x)
    assert len(method.state["prompts"]) == len(method.state["statistics"]) == 2
    assert method.counts["learned"] == 2
    assert method.counts["reused"] == 3


def test_the_coreset_belongs_to_the_domain(images):
    method = make(images, ratio=NEVER)
    first, second = method.domain_state(), method.fresh_domain_state()
    method.adapt(images[1])
    seen = first["prompts"].clone(), first["statistics"].clone()
    method.load(method.source, second)
    method.adapt(images[2])
    method.adapt(images[3])
    assert torch.equal(first["prompts"], seen[0])
    assert torch.equal(first["statistics"], seen[1])
    assert len(method.state["prompts"]) == 2
    inherited = method.inherit_domain_state(first)
    assert inherited["prompts"] is inherited["statistics"] is None


def test_a_broken_batch_adds_nothing(images):
    method = make(images)
    method.adapt(images[1])
    prompts, stored = method.state["prompts"].clone(), method.state["statistics"].clone()
    method.adapt(images[2] * float("nan"))
    assert torch.equal(method.state["prompts"], prompts)
    assert torch.equal(method.state["statistics"], stored)
    assert method.rejected > 0
    method.adapt(images[2])
    assert torch.isfinite(method.space.values).all()


def test_mistakes_are_explained(images):
    with pytest.raises(ReservoirError, match="dpcore has no source statistics"):
        prompt_method(DPCore).adapt(images[0])
    for options in (dict(temperature=0), dict(alpha=1.5), dict(limit=0)):
        with pytest.raises(ReservoirError, match=r"DPCore\.(temperature|alpha|limit) must"):
            prompt_method(DPCore, **options)
