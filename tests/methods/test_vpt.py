import pytest
import torch
from small_vit import make_vit, prompt_method

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods.vpt import Vpt, discrepancy, statistics
from mmseg_reservoir.params import ParamSpace, norm_affine


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(6, 3, 8, 8, generator=generator) for _ in range(4)]


def class_tokens(net, images, prompts=None):
    """The features of a plain net, with the prompts behind the class token."""
    x = net.tokens(images)
    if prompts is not None:
        x = torch.cat([x[:, :1], prompts.expand(len(x), -1, -1), x[:, 1:]], dim=1)
    for block in net.blocks:
        x = block(x)
    return net.norm(x)[:, 0]


def moments(features):
    mean = features.sum(0) / len(features)
    return mean, ((features - mean) ** 2).sum(0).div(len(features) - 1).sqrt()


def plain_distance(one, other, weight):
    return (one[0] - other[0]).square().sum().sqrt() + weight * (
        one[1] - other[1]
    ).square().sum().sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_equal_a_few_plain_lines(images, dtype):
    images = [x.to(dtype) for x in images]
    method = prompt_method(Vpt, dtype=dtype, first_steps=1, std_weight=0.5)
    method.prepare(images[:2])
    plain = make_vit(dtype=dtype)
    with torch.no_grad():
        source = moments(class_tokens(plain, torch.cat(images[:2])))
    prompts = method.space.snapshot().view(3, 12).requires_grad_()
    features = class_tokens(plain, images[2], prompts)
    expected = plain_distance(moments(features), source, 0.5)
    expected.backward()

    method.space.zero_grad()
    prediction, loss = method.loss(images[2])
    torch.testing.assert_close(prediction, plain.head(features))
    torch.testing.assert_close(loss, expected)
    method.backward(loss)
    torch.testing.assert_close(method.space.values.grad.view(3, 12), prompts.grad)


def test_steps_bring_the_features_nearer_to_the_source(images):
    method = prompt_method(Vpt, first_steps=20)
    method.prepare(images[:2])
    shifted = [3 * x + 2 for x in images[2:]]
    with torch.no_grad():
        before = method._loss(shifted[0])[1]
    method.adapt(shifted[0])
    with torch.no_grad():
        after = method._loss(shifted[0])[1]
    assert after < 0.7 * before
    assert method.counts["updates"] == 1
    assert method.counts["steps"] == 20
    method.adapt(shifted[1])
    assert method.counts["updates"] == 2
    assert method.counts["steps"] == 21


def test_many_first_steps_are_many_single_steps(images):
    one, other = prompt_method(Vpt, first_steps=4), prompt_method(Vpt, first_steps=1)
    for method in (one, other):
        method.prepare(images[:2])
    prediction = one.adapt(images[2])
    for _ in range(3):
        other.adapt(images[2])
    assert torch.equal(other.adapt(images[2]), prediction)
    assert torch.equal(one.space.values, other.space.values)


def test_only_so_many_source_images_are_looked_at(images):
    read = []

    def source():
        for x in images:
            read.append(1)
            yield x

    method = prompt_method(Vpt, source_images=8)
    method.prepare(source())
    assert len(read) == 2
    with torch.no_grad():
        expected = moments(class_tokens(make_vit(), torch.cat(images[:2])[:8]))
    torch.testing.assert_close(method.source_statistics, torch.stack(expected))


def test_entropy_needs_no_source(images):
    method = prompt_method(Vpt, loss="entropy")
    assert not method.needs_source
    assert prompt_method(Vpt).needs_source
    prediction, loss = method.loss(images[0])
    p = prediction.softmax(1)
    torch.testing.assert_close(loss, -(p * p.log()).sum(1).mean())
    method.adapt(images[0])
    assert method.counts["steps"] == 1


def test_a_single_image_has_a_mean_and_no_deviation(images):
    one = images[0].flatten(1)[:1]
    assert torch.equal(statistics(one), torch.cat([one, torch.zeros_like(one)]))
    method = prompt_method(Vpt, first_steps=2)
    method.prepare(images[:1])
    method.adapt(images[1][:1])
    assert method.rejected == 0
    assert not torch.equal(method.space.values, method.source)


def test_equal_images_give_finite_gradients(images):
    method = prompt_method(Vpt, first_steps=2)
    method.prepare(images[:1])
    method.adapt(images[1][:1].expand(4, -1, -1, -1))
    assert method.rejected == 0
    assert torch.isfinite(method.space.values).all()


def test_broken_images_change_no_prompt(images):
    method = prompt_method(Vpt, first_steps=3)
    method.prepare(images[:1])
    method.adapt(images[1] * float("nan"))
    assert torch.equal(method.space.values, method.source)
    assert method.counts["updates"] == 0
    assert method.rejected > 0


def test_first_steps_are_counted_per_domain(images):
    method = prompt_method(Vpt, first_steps=5)
    method.prepare(images[:1])
    first = method.domain_state()
    method.adapt(images[1])
    method.adapt(images[1])
    assert method.counts["steps"] == 6
    parameters = method.space.snapshot()
    method.load(method.source, method.fresh_domain_state())
    method.adapt(images[2])
    assert method.counts["steps"] == 11
    assert first["batches"] == 2
    method.load(parameters, first)
    method.adapt(images[1])
    assert method.counts["steps"] == 12
    inherited = method.inherit_domain_state(first)
    assert inherited["batches"] == 0
    assert "exp_avg" in inherited["optimizer"]


def test_discrepancy_of_a_set_of_statistics():
    one, many = torch.randn(2, 7), torch.randn(4, 2, 7)
    expected = [plain_distance(one, other, 2.0) for other in many]
    torch.testing.assert_close(discrepancy(one, many, 2.0), torch.stack(expected))


def test_mistakes_are_explained(images):
    net = make_vit()
    space = ParamSpace(net, norm_affine(net))
    with pytest.raises(ReservoirError, match=r'vpt adapts visual prompts: .*type="prompt"'):
        Vpt(net, space, torch.optim.Adam)
    with pytest.raises(ReservoirError, match="one of alignment, entropy, got 'entrpy'"):
        prompt_method(Vpt, loss="entrpy")
    with pytest.raises(ReservoirError, match="at least 1, or None, got 0"):
        prompt_method(Vpt, first_steps=0)
    with pytest.raises(
        ReservoirError, match=r"vpt has no source statistics: give it source images"
    ):
        prompt_method(Vpt).adapt(images[0])
    for too_few in ([], [images[0][:1]]):
        with pytest.raises(ReservoirError, match="at least 2 images, got"):
            prompt_method(Vpt).prepare(too_few)
