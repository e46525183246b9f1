from functools import partial

import pytest
import torch

from mmseg_reservoir.registry import find, table
from mmseg_reservoir.style import statistics


@pytest.fixture
def features():
    torch.manual_seed(0)
    return torch.randn(3, 4, 5, 6) * 2 + 1


def by_hand(name, z):
    """Channel by channel, with plain sums."""
    out, second = [], []
    for channel in z.unbind(1):
        values = channel.flatten()
        images = channel.flatten(1)
        variance = ((values - values.mean()) ** 2).sum() / (len(values) - 1)
        if name in ("logvar", "var"):
            out.append(variance.log() if name == "logvar" else variance)
        elif name == "gram":
            out.append((images**2).sum(1).mean())
        else:
            out.append(images.mean(1).mean())
            second.append((images.var(1) + 1e-5).log().mean())
    return torch.stack(out + (second if name == "mean_var" else []))


@pytest.mark.parametrize("name", ["logvar", "mean", "var", "mean_var", "gram"])
def test_equals_a_computation_by_hand(features, name):
    torch.testing.assert_close(find("statistic", name)(features), by_hand(name, features))


@pytest.mark.parametrize("name", ["logvar", "mean", "var", "mean_var", "gram"])
def test_the_order_in_memory_changes_nothing(name):
    torch.manual_seed(0)
    large = torch.randn(2, 5, 40, 60) + torch.tensor([0.0, 1, 10, 100, 1000]).view(1, 5, 1, 1)
    statistic = find("statistic", name)
    torch.testing.assert_close(
        statistic(large.to(memory_format=torch.channels_last)), statistic(large)
    )


@pytest.mark.parametrize("name", table("statistic"))
def test_constant_features_are_finite(name):
    assert torch.isfinite(find("statistic", name)(torch.ones(1, 2, 4, 4))).all()


@pytest.mark.parametrize("name", table("statistic"))
def test_lengths_are_found_by_trying(name):
    statistic = find("statistic", name)
    assert statistics.length_of(statistic, 5) == len(statistic(torch.rand(3, 5, 4, 4)))


def test_a_statistic_without_a_name_equals_no_other():
    low, high = (partial(torch.quantile, q=q) for q in (0.1, 0.9))
    assert statistics.name_of(low) != statistics.name_of(high)


@pytest.fixture
def pairs():
    torch.manual_seed(0)
    return torch.randn(5, 7), torch.randn(3, 7)


def distance_by_hand(name, s, c):
    if name == "euclidean":
        return (s - c).square().sum().sqrt()
    if name == "cosine":
        return 1 - (s @ c) / (s.norm() * c.norm())
    p, q = s.softmax(0), c.softmax(0)
    return (p * (p / q).log()).sum()


@pytest.mark.parametrize("name", ["euclidean", "cosine", "kl"])
def test_a_distance_equals_its_definition(pairs, name):
    styles, centroids = pairs
    expected = torch.stack(
        [torch.stack([distance_by_hand(name, s, c) for c in centroids]) for s in styles]
    )
    torch.testing.assert_close(find("distance", name)(styles, centroids), expected)


@pytest.mark.parametrize("name", table("distance"))
def test_zero_to_itself_and_finite_gradients_there(name):
    style = torch.randn(1, 7)
    centroid = style.clone().requires_grad_()
    distance = find("distance", name)(style, centroid)
    torch.testing.assert_close(distance, torch.zeros(1, 1), atol=1e-6, rtol=0)
    distance.sum().backward()
    assert torch.isfinite(centroid.grad).all()
