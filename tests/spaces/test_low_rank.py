import pytest
import torch
from torch import nn

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.spaces.low_rank import LowRankSpace


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


def make(average):
    net = TwoFactors()
    factors = {n: p for n, p in net.named_parameters() if "lora" in n}
    return net, LowRankSpace(net, factors, average)


EXPERTS = torch.randn(3, 18, generator=torch.Generator().manual_seed(1))
WEIGHTS = torch.tensor([0.2, 0.5, 0.3])
X = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))


def dense(net, space):
    """The weighted mean of the products, as a dense matrix."""
    products = [b @ a for a, b in map(space.split, EXPERTS)]
    return net.base.weight + sum(q * p for q, p in zip(WEIGHTS, products, strict=True))


@torch.no_grad()
def test_product_average_equals_a_dense_computation():
    net, space = make("product")
    with space.ensembled(EXPERTS, WEIGHTS):
        out = net(X)
    torch.testing.assert_close(out, X @ dense(net, space).T)


@torch.no_grad()
def test_factor_average_is_the_literal_equation_and_another_thing():
    net, space = make("factors")
    with space.ensembled(EXPERTS, WEIGHTS):
        out = net(X)
    a, b = space.split(WEIGHTS @ EXPERTS)
    torch.testing.assert_close(out, X @ (net.base.weight + b @ a).T)
    assert not torch.allclose(out, X @ dense(net, space).T, atol=1e-2)


def test_afterwards_values_and_gradients_are_those_of_the_flat_buffer_again():
    net, space = make("product")
    space.load(EXPERTS[0])
    with torch.no_grad(), space.ensembled(EXPERTS, WEIGHTS):
        net(X)
    space.load(EXPERTS[1])
    a, b = space.split(EXPERTS[1])
    assert torch.equal(net.lora_A.weight, a)
    assert torch.equal(net.lora_B.weight, b)
    gradient = space.zero_grad()
    net(X).sum().backward()
    assert gradient.abs().min() > 0


@torch.no_grad()
def test_another_model_may_run_within_the_ensemble():
    net, space = make("product")
    source = space.snapshot()
    expected = net(X)
    with space.ensembled(EXPERTS, WEIGHTS):
        together = net(X)
        with space.at(source):
            torch.testing.assert_close(net(X), expected)
        assert torch.equal(net(X), together)


def test_mistakes_are_explained():
    net = TwoFactors()
    with pytest.raises(ReservoirError, match="in pairs named lora_A and lora_B"):
        LowRankSpace(net, {"lora_A.weight": net.lora_A.weight})
    with pytest.raises(ReservoirError, match="unknown average of low-rank factors 'sum'"):
        make("sum")


@pytest.mark.parametrize("average", ["factors", "product"])
@torch.no_grad()
def test_what_is_carried_besides_the_factors_is_averaged(average):
    _, space = make(average)
    carried = torch.zeros(3)
    space.carry({"statistics": carried})
    experts = torch.cat([EXPERTS, torch.eye(3)], dim=1)
    with space.ensembled(experts, WEIGHTS):
        torch.testing.assert_close(carried, WEIGHTS)
    with space.at(experts[1]):
        assert carried.tolist() == [0, 1, 0]
