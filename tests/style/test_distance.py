import pytest
import torch

from mmseg_reservoir.registry import find, table
from mmseg_reservoir.style import distance as _  # noqa: F401 (registers)


@pytest.fixture
def pairs():
    torch.manual_seed(0)
    return torch.randn(5, 7), torch.randn(3, 7)


def by_hand(name, s, c):
    if name == "euclidean":
        return (s - c).square().sum().sqrt()
    if name == "cosine":
        return 1 - (s @ c) / (s.norm() * c.norm())
    p, q = s.softmax(0), c.softmax(0)
    return (p * (p / q).log()).sum()


@pytest.mark.parametrize("name", ["euclidean", "cosine", "kl"])
def test_equals_the_definition(pairs, name):
    styles, centroids = pairs
    expected = torch.stack([torch.stack([by_hand(name, s, c) for c in centroids]) for s in styles])
    torch.testing.assert_close(find("distance", name)(styles, centroids), expected)


@pytest.mark.parametrize("name", table("distance"))
def test_zero_to_itself_and_finite_gradients_there(name):
    style = torch.randn(1, 7)
    centroid = style.clone().requires_grad_()
    distance = find("distance", name)(style, centroid)
    torch.testing.assert_close(distance, torch.zeros(1, 1), atol=1e-6, rtol=0)
    distance.sum().backward()
    assert torch.isfinite(centroid.grad).all()
