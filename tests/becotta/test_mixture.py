import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, layer_norm, one_hot

from mmseg_reservoir.becotta import (
    DomainDiscriminator,
    DomainGates,
    DomainShares,
    LowRankExperts,
    MixtureOfDomainExperts,
    domain_expert_information,
)

DIM, EXPERTS, TOP_K, RANK, DOMAINS = 8, 4, 2, 3, 2
LABELS = torch.tensor([0, 0, 1, 1])


def randomised(module, scale=0.5):
    generator = torch.Generator().manual_seed(5)
    for parameter in module.parameters():
        parameter.data = scale * torch.randn(parameter.shape, generator=generator)
    return module.eval()


def mixture(labels, experts=EXPERTS, top_k=TOP_K):
    shares = DomainShares()
    shares.value = one_hot(torch.tensor(labels), DOMAINS)
    made = MixtureOfDomainExperts(DIM, experts, top_k, RANK, DOMAINS, shares)
    return randomised(made)


def tokens(count=2, seed=0):
    return torch.randn(count, 6, DIM, generator=torch.Generator().manual_seed(seed))


def test_experts_equal_one_network_at_a_time():
    experts = randomised(LowRankExperts(DIM, EXPERTS, RANK))
    x, weights = tokens(), torch.tensor([[0.3, 0.0, 0.7, 0.0], [0.0, 0.0, 0.4, 0.6]])
    expected = torch.zeros_like(x)
    for n in range(2):
        for i in range(EXPERTS):
            inner = gelu(x[n] @ experts.down_weight[i].T + experts.down_bias[i])
            outer = inner @ experts.up_weight[i] + experts.up_bias[i]
            expected[n] += weights[n, i] * outer
    torch.testing.assert_close(experts(x, weights), expected)


def test_new_experts_change_nothing():
    shares = DomainShares()
    shares.value = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    fresh = MixtureOfDomainExperts(DIM, EXPERTS, TOP_K, RANK, DOMAINS, shares)
    assert torch.equal(fresh.eval()(tokens()), tokens())


def test_one_expert_and_gate_1_is_a_plain_adapter():
    single = mixture([0, 1], experts=1, top_k=1)
    adapter = nn.Sequential(nn.Linear(DIM, RANK), nn.GELU(), nn.Linear(RANK, DIM))
    with torch.no_grad():
        adapter[0].weight.copy_(single.experts.down_weight[0])
        adapter[0].bias.copy_(single.experts.down_bias[0])
        adapter[2].weight.copy_(single.experts.up_weight[0].T)
        adapter[2].bias.copy_(single.experts.up_bias[0])
    x = tokens()
    torch.testing.assert_close(single(x), x + adapter(x))
    assert sum(p.numel() for p in single.experts.parameters()) == sum(
        p.numel() for p in adapter.parameters()
    )


def test_the_gate_is_the_softmax_of_the_largest_logits_of_the_images_domain():
    gates = randomised(DomainGates(DIM, EXPERTS, TOP_K, DOMAINS))
    x = tokens()
    weights = gates(x, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    for n, domain in enumerate([0, 1]):
        logits = gates.weight[domain] @ layer_norm(x[n].mean(0), (DIM,))
        first, second = logits.argsort(descending=True)[:TOP_K]
        share = torch.sigmoid(logits[first] - logits[second])
        expected = torch.zeros(EXPERTS)
        expected[first], expected[second] = share, 1 - share
        torch.testing.assert_close(weights[n], expected)


def test_soft_shares_blend_the_gates():
    gates = randomised(DomainGates(DIM, EXPERTS, TOP_K, DOMAINS))
    x = tokens(1)
    zero, one = (gates(x, torch.tensor([[1.0 - d, d]])) for d in (0.0, 1.0))
    blended = gates(x, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(blended, 0.25 * zero + 0.75 * one)


def test_gradients_reach_the_gate_of_the_domain_and_the_chosen_experts_alone():
    made = mixture([1])
    x = tokens(1)
    chosen = made.gates(x, made.shares.value.to(x))[0] > 0
    assert chosen.sum() == TOP_K
    made(x).square().sum().backward()
    for parameter in made.experts.parameters():
        reached = parameter.grad.flatten(1).abs().sum(1) > 0
        assert torch.equal(reached, chosen)
    gate = made.gates.weight.grad.abs().sum(2) > 0
    assert torch.equal(gate, torch.stack([torch.zeros_like(chosen), chosen]))


def test_the_gates_gradient_is_that_of_finite_differences():
    made = mixture([0, 1]).double()
    x = tokens().double()
    made(x).square().sum().backward()
    weight = made.gates.weight
    index = tuple(weight.grad.abs().flatten().argmax().view(1).tolist())
    step, values = 1e-6, []
    for sign in (1, -1):
        with torch.no_grad():
            weight.view(-1)[index] += sign * step
            values.append(made(x).square().sum())
            weight.view(-1)[index] -= sign * step
    torch.testing.assert_close(
        (values[0] - values[1]) / (2 * step), weight.grad.view(-1)[index], rtol=1e-5, atol=1e-6
    )


def test_noise_is_for_training_only_and_follows_seed_and_count():
    gates, x = DomainGates(DIM, EXPERTS, TOP_K, DOMAINS, seed=3), tokens()
    shares = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert torch.equal(gates.eval()(x, shares), gates(x, shares))
    first, second = gates.train()(x, shares), gates(x, shares)
    assert not torch.equal(first, second)
    assert int(gates.draws) == 2
    resumed = DomainGates(DIM, EXPERTS, TOP_K, DOMAINS, seed=3)
    torch.manual_seed(99)
    assert torch.equal(resumed(x, shares), first)
    resumed.load_state_dict(gates.state_dict())
    assert torch.equal(resumed(x, shares), gates(x, shares))
    gates(x, shares)[:, 0].sum().backward()
    assert gates.noise_weight.grad.abs().sum() > 0


def test_information_is_ln_2_if_each_of_two_domains_has_its_expert():
    routing = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert float(domain_expert_information(routing, LABELS, 2)) == pytest.approx(math.log(2))


def test_information_is_0_if_domains_use_experts_alike_or_there_is_one_domain():
    alike = torch.tensor([[0.3, 0.7, 0.0]]).expand(4, 3)
    assert float(domain_expert_information(alike, LABELS, 2)) == pytest.approx(0, abs=1e-6)
    some = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    alone = domain_expert_information(some, torch.tensor([3, 3]), 5)
    assert float(alone) == pytest.approx(0, abs=1e-6)


def test_information_equals_the_sum_over_a_table():
    routing = torch.tensor([[0.6, 0.4, 0.0], [0.2, 0.0, 0.8], [0.0, 0.5, 0.5], [0.1, 0.9, 0.0]])
    labels = torch.tensor([0, 1, 0, 1])
    expected = 0.0
    for d in range(2):
        for i in range(3):
            joint = float(routing[labels == d, i].sum()) / 4
            expert = float(routing[:, i].sum()) / 4
            expected += joint * math.log(joint / (expert * 0.5)) if joint else 0.0
    assert float(domain_expert_information(routing, labels, 2)) == pytest.approx(expected)


def test_the_informations_gradient_is_finite_and_parts_the_domains():
    logits = torch.tensor([[0.2, 0.0], [0.1, 0.0], [0.0, 0.1], [0.0, 0.2]], requires_grad=True)
    domain_expert_information(logits.softmax(1), LABELS, 2).backward()
    assert (logits.grad[:2, 0] > 0).all()
    assert (logits.grad[2:, 0] < 0).all()
    sparse = torch.eye(2, requires_grad=True)
    domain_expert_information(sparse, torch.tensor([0, 1]), 2).backward()
    assert torch.isfinite(sparse.grad).all()


def test_the_discriminator_takes_images_of_any_size():
    for size in ((16, 24), (64, 33)):
        assert DomainDiscriminator(5)(torch.rand(2, 3, *size)).shape == (2, 5)


def test_the_discriminator_learns_bright_from_dark_also_of_constant_images():
    generator = torch.Generator().manual_seed(0)
    model = DomainDiscriminator(2, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    labels = torch.arange(8) % 2
    levels = labels.view(-1, 1, 1, 1) * 2.0 - 1
    for _ in range(30):
        images = levels + 0.2 * torch.randn(8, 3, 16, 16, generator=generator)
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    assert torch.equal(model(levels.expand(8, 3, 20, 28)).argmax(1), labels)
    cross_entropy(model(torch.zeros(1, 3, 16, 16)), labels[:1]).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_discriminators_initial_weights_depend_on_the_seed_only():
    one = DomainDiscriminator(3, seed=2)
    torch.rand(7)
    for a, b in zip(one.parameters(), DomainDiscriminator(3, seed=2).parameters(), strict=True):
        assert torch.equal(a, b)
