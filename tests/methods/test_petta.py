import pytest
import torch
from small_net import make_classifier, make_method, make_net
from teacher_by_hand import DOUBLE, ByHand, batches
from torch import nn

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Petta
from mmseg_reservoir.methods.common.augment import Augment
from mmseg_reservoir.methods.petta import Features
from mmseg_reservoir.params import norm_affine
from mmseg_reservoir.routing import OracleRouter

SOURCE = [x + 0.3 * torch.randn(x.shape, dtype=DOUBLE) for x in batches(4, n=8, seed=11)]


def petta(prepare=True, **options):
    options = {"capacity": 16, "update_every": 4, "dtype": DOUBLE, **options}
    method = make_method(Petta, supports="images", **options)
    if prepare:
        method.prepare(SOURCE)
    return method


def source_features():
    """Mean, variance and number of the source's features by class, the plain way."""
    net, x = make_classifier(DOUBLE), torch.cat(SOURCE)
    with torch.no_grad():
        features, labels = net[:8](x), net(x).argmax(1)
    found = {}
    for y in range(5):
        mine = features[labels == y]
        if len(mine) >= 2:
            found[y] = mine.mean(0), mine.var(0, unbiased=False)
    return found


def test_prepare_finds_mean_and_variance_of_the_features_by_class():
    method, expected = petta(), source_features()
    assert expected
    for y, (mean, variance) in expected.items():
        torch.testing.assert_close(method.source_features["mean"][y], mean)
        torch.testing.assert_close(
            method.source_features["variance"][y], variance, rtol=1e-6, atol=1e-12
        )
    counts = method.source_features["count"]
    assert counts.sum() == 32
    assert {y for y in range(5) if counts[y] >= 2} == set(expected)


def cross_entropy(p, q):
    return -(p * q.log()).sum(1)


@pytest.mark.parametrize("regularizer", ["cosine", "l2"])
@pytest.mark.parametrize("classification", ["self_training", "cross_entropy"])
def test_three_updates_are_those_of_the_paper(regularizer, classification):
    options = dict(alpha_0=0.4, lambda_0=7.0, rate=0.3, seed=5)
    method = petta(regularizer=regularizer, classification=classification, **options)
    hand, known, source = ByHand(rate=0.3), source_features(), make_classifier(DOUBLE)
    theta_0 = torch.cat([p.detach().flatten() for p in norm_affine(source).values()])
    generator, augment = torch.Generator().manual_seed(5), Augment()
    means = {y: mean.clone() for y, (mean, _) in known.items()}
    divergences = []
    for x in batches(3):
        with torch.no_grad():
            expected = hand.teacher(x)
        torch.testing.assert_close(method.adapt(x), expected)
        images = torch.stack([item["image"] for item in method.state["bank"]])

        with torch.no_grad():
            teacher, features = hand.learn(hand.teacher, images)
            anchor = source(images).softmax(1)
        labels = teacher.argmax(1)
        gammas = []
        for y in set(labels.tolist()) & set(known):
            drift = means[y] - known[y][0]
            gammas.append(1 - (-(drift**2 / (known[y][1] + 1e-6)).sum()).exp())
            means[y] = 0.7 * means[y] + 0.3 * features[labels == y].mean(0)
        gamma = sum(gammas) / len(gammas)
        divergences.append(float(gamma))
        assert method.divergence == pytest.approx(float(gamma))

        both, _ = hand.learn(hand.student, torch.cat([images, augment(images, generator)]))
        plain, strong = both.softmax(1).chunk(2)
        target = teacher.softmax(1)
        if classification == "self_training":
            fit = cross_entropy(target, plain) + cross_entropy(target, strong)
            fit = (fit + cross_entropy(plain, target) + cross_entropy(strong, target)) / 4
        else:
            fit = cross_entropy(target, strong)
        theta = torch.cat([p.flatten() for p in norm_affine(hand.student).values()])
        if regularizer == "cosine":
            distance = 1 - theta @ theta_0 / (theta.norm() * theta_0.norm())
        else:
            distance = ((theta - theta_0) ** 2).sum()
        loss = (fit + cross_entropy(anchor, plain)).mean() + gamma * 7.0 * distance
        hand.update(loss, rate=float((1 - gamma) * 0.4))

    assert divergences[0] == 0  # the means begin at the source's
    assert 0 < divergences[1] < 1
    hand.assert_teacher_is_in(method.space)
    for y, mean in means.items():
        torch.testing.assert_close(method.state["means"][y], mean)


def test_far_from_the_source_the_teacher_stands_still():
    method, (x, y) = petta(alpha_0=0.5), batches(2)
    method.adapt(x)
    method.state["means"] = method.state["means"] + 100.0
    before = method.space.snapshot()
    method.adapt(y)
    assert method.divergence == 1
    adapting = slice(method.space.adapting)
    torch.testing.assert_close(method.space.values[adapting].detach(), before[adapting])
    assert not torch.equal(method.state["student"][adapting], before[adapting])


def test_classes_that_the_source_has_not_shown_are_not_measured():
    method, (x, y) = petta(), batches(2)
    method.source_features["count"].fill_(1)
    method.adapt(x)
    method.adapt(y)
    assert method.divergence == 0
    assert torch.equal(method.state["means"], method.source_features["mean"])


def test_the_means_are_the_experts_own_and_the_source_is_shared():
    pipeline = ReservoirPipeline(petta(), OracleRouter(4))
    fog, night, *more = batches(6)
    pipeline.step(fog, domain="fog")
    pipeline.step(1 - night / 2, domain="night")
    kept = pipeline.reservoir.checkout(1)[1]["means"].clone()
    known = {name: value.clone() for name, value in pipeline.method.source_features.items()}
    for x in more:
        pipeline.step(1 - x / 2, domain="night")
    assert torch.equal(pipeline.reservoir.checkout(1)[1]["means"], kept)
    assert not torch.equal(pipeline.reservoir.checkout(2)[1]["means"], kept)
    assert all(
        torch.equal(pipeline.method.source_features[name], value) for name, value in known.items()
    )
    clone = pipeline.method.inherit_domain_state(pipeline.reservoir.checkout(2)[1])
    assert clone["means"] is None


def test_a_broken_update_leaves_no_trace_in_the_means():
    method, (x,) = petta(), batches(1)
    method.augment = lambda images, generator: images * torch.inf
    method.adapt(x)
    assert method.counts["not_finite"] == 1
    assert method.state["means"] is None
    assert torch.equal(method.space.values, method.source)


def test_the_source_is_asked_for():
    assert petta(prepare=False).needs_source
    with pytest.raises(ReservoirError, match=r"source=.* prepare\(source_batches\)"):
        petta(prepare=False).adapt(batches(1)[0])
    with pytest.raises(ReservoirError, match="no source batch"):
        petta(prepare=False).prepare([])


def test_the_papers_settings_are_the_defaults():
    method = make_method(Petta, supports="images")
    assert (method.alpha_0, method.lambda_0, method.rate) == (0.001, 10, 0.05)
    assert method.bank.capacity == method.update_every == 64
    assert method.norms["4"].rate == 0.05


def test_bad_options_and_nets_without_features_are_explained():
    with pytest.raises(ReservoirError, match="regularizer must be one of cosine, l2, got 'l1'"):
        petta(regularizer="l1")
    with pytest.raises(ReservoirError, match="one of self_training, cross_entropy"):
        petta(classification="ce")
    with pytest.raises(ReservoirError, match="Sequential has none"):
        make_method(Petta, supports="pixels")


X = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
        self.head = nn.Linear(4, 5)
        self.unused = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(x))


def test_features_are_what_goes_into_the_last_linear_layer():
    net = make_classifier()
    logits, features = Features(net)(net, X)
    assert torch.equal(features, net[:8](X))
    assert torch.equal(logits, net(X))
    assert not net[8]._forward_pre_hooks  # nothing stays behind


def test_the_head_can_be_named():
    net = TwoHeads()
    features = Features(net, "head")(net, X)[1]
    assert torch.equal(features, net.body(X))


def test_a_layer_that_is_not_the_head_is_found_out():
    net = TwoHeads()
    with pytest.raises(ReservoirError, match=r"'unused' is not the head .* got nothing"):
        Features(net)(net, X)
    with pytest.raises(ReservoirError, match=r"'body\.1' is not the head .*head="):
        Features(net, "body.1")(net, X)
    assert not net.unused._forward_pre_hooks


def test_a_net_without_linear_layers_and_a_wrong_name_are_explained():
    with pytest.raises(ReservoirError, match=r"Sequential has none.*no features"):
        Features(make_net())
    with pytest.raises(ReservoirError, match=r"has no such layer 'fc'.*body.1, head, unused"):
        Features(TwoHeads(), "fc")
