import math

import pytest
import torch
from elsewhere import sent

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import find, table
from mmseg_reservoir.routing.clustering import InformationClustering

D = 5
SOURCE = torch.arange(D) / 2


@pytest.mark.parametrize("kind", table("clustering"))
def test_first_centroid_is_the_sources_and_new_ones_stand_at_their_style(kind):
    clustering = find("clustering", kind)().start(SOURCE)
    torch.testing.assert_close(clustering.centroids.detach(), SOURCE[None])
    style = SOURCE + 7
    clustering.open(style)
    torch.testing.assert_close(clustering.centroids.detach()[1], style)
    torch.testing.assert_close(clustering.assign(style[None])[0].argmax(), torch.tensor(1))


@pytest.mark.parametrize("send", [dict, sent])
@pytest.mark.parametrize("kind", table("clustering"))
def test_state_round_trip_continues_identically(kind, send):
    torch.manual_seed(0)
    styles = torch.randn(20, D) * 3
    one, other = (find("clustering", kind)().start(at) for at in (SOURCE, torch.zeros(D)))
    one.open(styles[0])
    for s in styles[:10]:
        one.move(styles[:10], s)
    other.load_state_dict(send(one.state_dict()))
    for s in styles[10:]:
        one.move(styles, s)
        other.move(styles, s)
    assert torch.equal(one.centroids, other.centroids)


def test_information_is_gained():
    torch.manual_seed(0)
    styles = torch.cat([torch.randn(20, D), torch.randn(20, D) + 4])
    clustering = InformationClustering(lr=0.1).start(torch.zeros(D))
    clustering.open(torch.ones(D))
    first = clustering.assign(styles)
    for _ in range(50):
        clustering.move(styles, styles[0])
    last = clustering.assign(styles)
    assert last.max(dim=1).values.mean() > first.max(dim=1).values.mean()
    assert 0.4 < last.mean(dim=0)[0] < 0.6  # decided, and in two equal halves


@pytest.mark.parametrize("target", ["source", "zero"])
def test_weight_decay_pulls_towards_its_target(target):
    clustering = InformationClustering(lr=0.1, weight_decay=1.0, decay_towards=target).start(SOURCE)
    far = SOURCE + 20
    clustering.open(far)
    goal = SOURCE if target == "source" else torch.zeros(D)
    before = (far - goal).norm()
    # One style at each centroid: decided and diverse, so the loss has hardly a gradient.
    for _ in range(5):
        clustering.move(torch.stack([SOURCE, far]), far)
    after = (clustering.centroids.detach()[1] - goal).norm()
    assert after == pytest.approx(float(before) * 0.9**5, rel=0.05)


def test_sinkhorn_targets_are_balanced():
    clustering = find("clustering", "sinkhorn")(lr=0.1, iterations=50).start(torch.zeros(D))
    torch.manual_seed(0)
    logits = torch.randn(30, 3)
    balanced = logits
    for _ in range(50):
        balanced = (balanced - balanced.logsumexp(0)).log_softmax(1)
    share = balanced.exp().mean(dim=0)
    torch.testing.assert_close(share, torch.full((3,), 1 / 3), atol=1e-3, rtol=0)
    expected = -(balanced.exp() * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(clustering.loss(logits), expected)


def test_sinkhorn_splits_styles_that_one_centroid_had_won():
    torch.manual_seed(0)
    styles = torch.cat([torch.randn(20, D), torch.randn(20, D) + 3])
    clustering = find("clustering", "sinkhorn")(lr=0.1).start(torch.full((D,), 1.5))
    clustering.open(torch.full((D,), 9.0))  # far from all
    assert clustering.assign(styles).mean(dim=0)[1] < 0.05
    for _ in range(100):
        clustering.move(styles, styles[0])
    assert clustering.assign(styles).mean(dim=0)[1] == pytest.approx(0.5, abs=0.1)


def test_kmeans_centroids_are_the_means_of_what_they_won():
    clustering = find("clustering", "kmeans")().start(torch.zeros(D))
    clustering.open(torch.full((D,), 10.0))
    near, far = torch.randn(8, D), torch.randn(6, D) + 10
    for s in [*near, *far]:
        clustering.move(torch.empty(0, D), s)
    source_and_near = torch.cat([torch.zeros(1, D), near]).mean(dim=0)
    torch.testing.assert_close(clustering.centroids[0], source_and_near)
    torch.testing.assert_close(clustering.centroids[1], far.mean(dim=0))


@pytest.mark.parametrize("distance", ["euclidean", "cosine", "kl"])
def test_assignments_use_the_distance_and_the_temperature(distance):
    torch.manual_seed(0)
    clustering = InformationClustering(temperature="sqrt_d", distance=distance).start(SOURCE)
    clustering.open(torch.randn(D))
    styles = torch.randn(4, D)
    expected = (-clustering.distances(styles) / math.sqrt(D)).softmax(dim=1)
    torch.testing.assert_close(clustering.assign(styles), expected)
    before = clustering.centroids.detach().clone()
    clustering.move(styles, styles[0])
    assert not torch.equal(clustering.centroids, before)


def test_mistakes_are_explained():
    with pytest.raises(
        ReservoirError, match=r"unknown distance 'manhattan'.*cosine, euclidean, kl"
    ):
        InformationClustering(distance="manhattan").start(SOURCE)
    with pytest.raises(ReservoirError, match="temperature must be"):
        InformationClustering(temperature=0).start(SOURCE)
    with pytest.raises(ReservoirError, match="must be one of source, zero, got 'origin'"):
        InformationClustering(decay_towards="origin").start(SOURCE)
