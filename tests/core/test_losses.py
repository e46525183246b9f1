import math

import torch

from mmseg_reservoir.core.losses import (
    entropy,
    information_loss,
    information_terms,
    marginal_entropy,
)


def test_entropy_of_known_distributions():
    logits = torch.tensor([[0.0, 0.0], [100.0, 0.0], [math.log(3.0), 0.0]])
    expected = torch.tensor([math.log(2), 0.0, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))])
    torch.testing.assert_close(entropy(logits), expected)


def test_pixels_are_samples():
    logits = torch.randn(2, 5, 3, 4)
    flat = logits.movedim(1, -1).reshape(-1, 5)
    torch.testing.assert_close(entropy(logits).reshape(-1), entropy(flat))
    torch.testing.assert_close(information_loss(logits), information_loss(flat))


def test_marginal_entropy_is_that_of_the_mean_distribution():
    torch.testing.assert_close(marginal_entropy(torch.eye(4) * 50), torch.tensor(math.log(4)))
    torch.testing.assert_close(marginal_entropy(torch.eye(4)[:1] * 50), torch.tensor(0.0))
    logits = torch.randn(2, 5, 3, 4)
    mean = logits.softmax(dim=1).mean(dim=(0, 2, 3))
    torch.testing.assert_close(marginal_entropy(logits), -(mean * mean.log()).sum())
    assert torch.equal(information_terms(logits)[1], -marginal_entropy(logits))


def test_information_loss_rewards_decided_and_diverse():
    decided_and_diverse = torch.eye(4) * 50
    decided_but_equal = torch.eye(4)[:1].expand(4, 4) * 50
    undecided = torch.zeros(4, 4)
    torch.testing.assert_close(information_loss(decided_and_diverse), torch.tensor(-math.log(4)))
    torch.testing.assert_close(information_loss(decided_but_equal), torch.tensor(0.0))
    torch.testing.assert_close(information_loss(undecided), torch.tensor(0.0), atol=1e-6, rtol=0)
    mean_entropy, negative_entropy_of_mean = information_terms(undecided)
    torch.testing.assert_close(mean_entropy, -negative_entropy_of_mean, atol=1e-6, rtol=0)
