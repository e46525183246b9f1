import pytest
import torch
from small_net import make_method
from torch import nn

from mmseg_reservoir.params.lora import average_products, lora_space
from mmseg_reservoir.snapshot.vector_layout import VectorLayout


def low_rank(seed, rank=2):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(rank, 6, generator=generator), torch.randn(5, rank, generator=generator)
    return a, b


def test_a_space_and_its_layout_split_alike_also_after_json():
    space = make_method().space
    layout = VectorLayout.from_json(VectorLayout.of(space).to_json())
    assert layout == VectorLayout.of(space)
    assert len(layout) == len(space)
    vector = torch.randn(len(space))
    for name, piece, expected in zip(
        space.names, layout.split(vector).values(), space.split(vector), strict=True
    ):
        assert torch.equal(piece, expected), name


@pytest.mark.parametrize(("statistics", "share"), [("running", 0.0), (0.2, 0.2), ("batch", 1.0)])
def test_it_tells_whether_batch_norm_goes_by_the_batch(statistics, share):
    layout = VectorLayout.of(make_method(statistics=statistics).space)
    assert layout.batch_share == pytest.approx(share)


def test_the_mean_of_equal_vectors_is_the_same_to_the_last_bit():
    layout = VectorLayout.of(make_method().space)
    vector = torch.randn(len(layout))
    assert torch.equal(layout.average(vector, vector.clone(), 0.3), vector)
    other = torch.randn(len(layout))
    torch.testing.assert_close(layout.average(vector, other, 0.25), 0.75 * vector + 0.25 * other)


def test_the_mean_of_products_is_the_nearest_of_their_rank():
    pairs, weights = [low_rank(1), low_rank(2)], (0.7, 0.3)
    a, b = average_products(pairs, weights)
    exact = sum(q * b @ a for q, (a, b) in zip(weights, pairs, strict=True))
    u, values, v = torch.linalg.svd(exact)
    torch.testing.assert_close(b @ a, u[:, :2] * values[:2] @ v[:2])
    length = torch.cat([a for a, _ in pairs]).square().sum(dim=1).mean().sqrt()
    torch.testing.assert_close(a.norm(dim=1), length.expand(2))


def test_one_product_is_kept_and_more_rank_than_rows_does_not_hurt():
    pair = low_rank(3)
    a, b = average_products([pair, low_rank(4)], (1.0, 0.0))
    torch.testing.assert_close(b @ a, pair[1] @ pair[0])
    wide = low_rank(5, rank=8)  # of a matrix of 5 x 6
    a, b = average_products([wide, wide], (0.5, 0.5))
    torch.testing.assert_close(b @ a, wide[1] @ wide[0], atol=1e-5, rtol=1e-5)


def test_experts_of_lora_are_averaged_by_what_they_do():
    torch.manual_seed(0)
    space = lora_space(nn.Sequential(nn.Linear(6, 5)), targets=("0",), rank=2, alpha=8.0)
    layout = VectorLayout.of(space)
    assert layout.scaling == 4.0
    one, other = torch.randn(2, len(space))
    # B the opposite, A too: the products are the same, the mean of the factors is nothing.
    torch.testing.assert_close(
        _product(layout, layout.average(one, -one, 0.5)), _product(layout, one)
    )
    mean = _product(layout, layout.average(one, other, 0.5))
    exact = (_product(layout, one) + _product(layout, other)) / 2
    assert torch.linalg.matrix_rank(mean, tol=1e-4) == 2
    left = torch.linalg.svdvals(exact)[2:].square().sum().sqrt()
    torch.testing.assert_close((mean - exact).norm(), left)


def _product(layout, vector):
    a, b = layout.split(vector).values()
    return b @ a
