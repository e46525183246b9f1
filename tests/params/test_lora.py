import copy

import pytest
import torch
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params.lora import LowRankSpace, lora_space


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.Sequential(
            nn.Conv2d(8, 12, 1), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.Conv2d(12, 8, 1)
        )

    def forward(self, x):
        n, c, h, w = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.attn(tokens, tokens, tokens, need_weights=False)[0]
        return self.layers(tokens.transpose(1, 2).view(n, c, h, w))


TARGETS = ("attn", "layers.0", "layers.2")
X = torch.randn(2, 8, 3, 4, generator=torch.Generator().manual_seed(0))


def make(**options):
    torch.manual_seed(0)
    net = nn.Sequential(Block(), Block()).eval()
    return net, lora_space(net, **{"targets": TARGETS, "rank": 2, **options})


@torch.no_grad()
def test_the_output_is_unchanged_at_the_start():
    torch.manual_seed(0)
    plain = nn.Sequential(Block(), Block()).eval()
    assert torch.equal(make()[0](X), plain(X))


def test_only_the_factors_adapt_and_gradients_reach_all_of_them():
    net, space = make(under="1")
    assert {n for n, p in net.named_parameters() if p.requires_grad} == set(space.names)
    assert all(n.startswith("1.") and "lora_" in n for n in space.names)
    assert len(space.names) == 8  # A and B of q k v, of the output, of two convolutions
    # 2 x (8 + 24) + 2 x (8 + 8) + 2 x (8 + 12) + 2 x (12 + 8)
    assert len(space) == 176
    space.load(torch.randn(len(space)))  # at B = 0 no gradient would reach A
    space.zero_grad()
    net(X).square().sum().backward()
    assert all(g.abs().sum() > 0 for g in space.split(space.values.grad))
    assert not any(module.training for module in net.modules())


@torch.no_grad()
def test_product_average_equals_dense_weights_in_attention_and_convolutions():
    net, space = make(average="product", alpha=6.0)
    experts = 0.3 * torch.randn(3, len(space), generator=torch.Generator().manual_seed(4))
    weights = torch.tensor([0.5, 0.3, 0.2])
    with space.ensembled(experts, weights):
        together = net(X)

    torch.manual_seed(0)
    plain = nn.Sequential(Block(), Block()).eval()
    dense = copy.deepcopy(dict(plain.named_parameters()))
    for expert, q in zip(experts, weights, strict=True):
        values = dict(zip(space.names, space.split(expert), strict=True))
        for name, a in values.items():
            if "lora_A" not in name:
                continue
            module = name.replace("base_layer.", "").split(".lora_A")[0]
            leaf = f"{module}.in_proj_weight" if module.endswith("attn") else f"{module}.weight"
            b = values[name.replace("lora_A", "lora_B")]
            delta = 6.0 / 2 * b.flatten(1) @ a.flatten(1)
            dense[leaf] += q * delta.view_as(dense[leaf])
    expected = torch.func.functional_call(plain, dense, X)
    torch.testing.assert_close(together, expected)


def test_the_seed_alone_decides_the_start():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = make(seed=3)[1].snapshot()
    torch.manual_seed(1)
    net = nn.Sequential(Block(), Block())
    after_net = torch.random.get_rng_state()
    space = lora_space(net, targets=TARGETS, rank=2, seed=3)
    assert torch.equal(torch.random.get_rng_state(), after_net)
    assert not torch.equal(before, after_net)
    assert torch.equal(space.snapshot(), first)
    assert not torch.equal(make(seed=4)[1].snapshot(), first)


def test_mistakes_are_explained():
    with pytest.raises(
        ReservoirError, match=r"no module .* ends in 'fc9'; Sequential has e.g. 0.a"
    ):
        make(targets=("attn", "fc9"))
    with pytest.raises(ReservoirError, match="has LoRA factors already"):
        lora_space(make()[0], targets=TARGETS)
    with pytest.raises(ReservoirError, match=r"0.layers.1 is a grouped convolution; leave it out"):
        make(targets=("layers.1",))


def test_frozen_weights_are_never_written_to():
    net, space = make()
    frozen = {n: p.clone() for n, p in net.named_parameters() if n not in space.names}
    space.load(torch.randn(len(space)))
    for _ in range(3):
        space.zero_grad()
        net(X).sum().backward()
    assert all(torch.equal(dict(net.named_parameters())[n], p) for n, p in frozen.items())


class TwoFactors(nn.Module):
    """``x W^T + x A^T B^T``, as a LoRA layer computes it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Linear(5, 4, bias=False)
        self.lora_A = nn.Linear(5, 2, bias=False)
        self.lora_B = nn.Linear(2, 4, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))


def make_factors(average):
    net = TwoFactors()
    factors = {n: p for n, p in net.named_parameters() if "lora" in n}
    return net, LowRankSpace(net, factors, average)


EXPERTS = torch.randn(3, 18, generator=torch.Generator().manual_seed(1))
WEIGHTS = torch.tensor([0.2, 0.5, 0.3])
ROWS = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))


def dense(net, space):
    """The weighted mean of the products, as a dense matrix."""
    products = [b @ a for a, b in map(space.split, EXPERTS)]
    return net.base.weight + sum(q * p for q, p in zip(WEIGHTS, products, strict=True))


@torch.no_grad()
def test_product_average_equals_a_dense_computation():
    net, space = make_factors("product")
    with space.ensembled(EXPERTS, WEIGHTS):
        out = net(ROWS)
    torch.testing.assert_close(out, ROWS @ dense(net, space).T)


@torch.no_grad()
def test_factor_average_is_the_literal_equation_and_another_thing():
    net, space = make_factors("factors")
    with space.ensembled(EXPERTS, WEIGHTS):
        out = net(ROWS)
    a, b = space.split(WEIGHTS @ EXPERTS)
    torch.testing.assert_close(out, ROWS @ (net.base.weight + b @ a).T)
    assert not torch.allclose(out, ROWS @ dense(net, space).T, atol=1e-2)


def test_afterwards_values_and_gradients_are_those_of_the_flat_buffer_again():
    net, space = make_factors("product")
    space.load(EXPERTS[0])
    with torch.no_grad(), space.ensembled(EXPERTS, WEIGHTS):
        net(ROWS)
    space.load(EXPERTS[1])
    a, b = space.split(EXPERTS[1])
    assert torch.equal(net.lora_A.weight, a)
    assert torch.equal(net.lora_B.weight, b)
    gradient = space.zero_grad()
    net(ROWS).sum().backward()
    assert gradient.abs().min() > 0


@torch.no_grad()
def test_another_model_may_run_within_the_ensemble():
    net, space = make_factors("product")
    source = space.snapshot()
    expected = net(ROWS)
    with space.ensembled(EXPERTS, WEIGHTS):
        together = net(ROWS)
        with space.at(source):
            torch.testing.assert_close(net(ROWS), expected)
        assert torch.equal(net(ROWS), together)


def test_mistakes_with_factors_are_explained():
    net = TwoFactors()
    with pytest.raises(ReservoirError, match="in pairs named lora_A and lora_B"):
        LowRankSpace(net, {"lora_A.weight": net.lora_A.weight})
    with pytest.raises(ReservoirError, match="average must be one of factors, product, got 'sum'"):
        make_factors("sum")


@pytest.mark.parametrize("average", ["factors", "product"])
@torch.no_grad()
def test_what_is_carried_besides_the_factors_is_averaged(average):
    _, space = make_factors(average)
    carried = torch.zeros(3)
    space.carry({"statistics": carried})
    experts = torch.cat([EXPERTS, torch.eye(3)], dim=1)
    with space.ensembled(experts, WEIGHTS):
        torch.testing.assert_close(carried, WEIGHTS)
    with space.at(experts[1]):
        assert carried.tolist() == [0, 1, 0]


def product(space, vector):
    """What the factors of an expert do, B A, of every pair."""
    values = dict(zip(space.names, space.split(vector), strict=True))
    return [
        values[name.replace("lora_A", "lora_B")].flatten(1) @ a.flatten(1)
        for name, a in values.items()
        if "lora_A" in name
    ]


def factors_of(space, vector, kind):
    found = zip(space.names, space.split(vector), strict=True)
    return torch.cat([value.flatten() for name, value in found if kind in name])


@torch.no_grad()
def test_with_the_same_a_the_product_moves_by_the_share_of_the_others_change():
    _, space = make()  # attention and convolutions
    generator = torch.Generator().manual_seed(7)
    mine, before, after = torch.randn(3, len(space), generator=generator)
    for vector in (before, after):
        for name, value, own in zip(
            space.names, space.split(vector), space.split(mine), strict=True
        ):
            if "lora_A" in name:
                value.copy_(own)
    start = mine.clone()
    space.share(mine, before, after, 0.375)
    assert torch.equal(factors_of(space, mine, "lora_A"), factors_of(space, start, "lora_A"))
    products = [product(space, vector) for vector in (start, mine, before, after)]
    assert len(products[0]) == 8
    for first, now, old, new in zip(*products, strict=True):
        assert (new - old).abs().max() > 1
        torch.testing.assert_close(now, first + 0.375 * (new - old), rtol=0, atol=1e-5)


@pytest.mark.parametrize("average", ["factors", "product"])
@torch.no_grad()
def test_with_other_a_the_shift_is_that_of_least_squares(average):
    _, space = make_factors(average)
    mine, before, after = EXPERTS.clone()
    space.share(mine, before, after, 0.5)
    assert torch.equal(before, EXPERTS[1])
    assert torch.equal(after, EXPERTS[2])
    (a, b), (first_a, first_b) = space.split(mine), space.split(EXPERTS[0])
    assert torch.equal(a, first_a)
    (old,), (new,) = product(space, before), product(space, after)
    # min_S | S A - (new - old) |, one row of S after the other.
    solution = torch.linalg.lstsq(a.T, (new - old).T).solution.T
    torch.testing.assert_close(b - first_b, 0.5 * solution, rtol=0, atol=1e-5)
    assert (solution @ a - (new - old)).norm() > 0.1  # these A's do not span it


@torch.no_grad()
def test_the_share_of_an_update_is_also_one_of_what_the_model_computes():
    net, space = make_factors("factors")
    mine, before, after = EXPERTS.clone()
    for vector in (before, after):
        space.split(vector)[0].copy_(space.split(mine)[0])

    def output(vector):
        space.load(vector)
        return net(ROWS)

    expected = output(mine) + 0.25 * (output(after) - output(before))
    space.share(mine, before, after, 0.25)
    torch.testing.assert_close(output(mine), expected)


@torch.no_grad()
def test_what_is_carried_besides_the_factors_is_not_shared():
    _, space = make_factors("factors")
    space.carry({"statistics": torch.zeros(3)})
    mine, before, after = torch.cat([EXPERTS, torch.eye(3)], dim=1)
    space.share(mine, before, after, 0.5)
    assert mine[-3:].tolist() == [1, 0, 0]
    assert not torch.allclose(mine[:-3], EXPERTS[0])
