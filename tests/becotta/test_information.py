import math

import pytest
import torch

from mmseg_reservoir.becotta import domain_expert_information

LABELS = torch.tensor([0, 0, 1, 1])


def test_is_ln_2_if_each_of_two_domains_has_its_expert():
    routing = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert float(domain_expert_information(routing, LABELS, 2)) == pytest.approx(math.log(2))


def test_is_0_if_domains_use_experts_alike_or_there_is_one_domain():
    alike = torch.tensor([[0.3, 0.7, 0.0]]).expand(4, 3)
    assert float(domain_expert_information(alike, LABELS, 2)) == pytest.approx(0, abs=1e-6)
    some = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    alone = domain_expert_information(some, torch.tensor([3, 3]), 5)
    assert float(alone) == pytest.approx(0, abs=1e-6)


def test_equals_the_sum_over_a_table():
    routing = torch.tensor([[0.6, 0.4, 0.0], [0.2, 0.0, 0.8], [0.0, 0.5, 0.5], [0.1, 0.9, 0.0]])
    labels = torch.tensor([0, 1, 0, 1])
    expected = 0.0
    for d in range(2):
        for i in range(3):
            joint = float(routing[labels == d, i].sum()) / 4
            expert = float(routing[:, i].sum()) / 4
            expected += joint * math.log(joint / (expert * 0.5)) if joint else 0.0
    assert float(domain_expert_information(routing, labels, 2)) == pytest.approx(expected)


def test_its_gradient_is_finite_and_parts_the_domains():
    logits = torch.tensor([[0.2, 0.0], [0.1, 0.0], [0.0, 0.1], [0.0, 0.2]], requires_grad=True)
    domain_expert_information(logits.softmax(1), LABELS, 2).backward()
    assert (logits.grad[:2, 0] > 0).all()
    assert (logits.grad[2:, 0] < 0).all()
    sparse = torch.eye(2, requires_grad=True)
    domain_expert_information(sparse, torch.tensor([0, 1]), 2).backward()
    assert torch.isfinite(sparse.grad).all()
