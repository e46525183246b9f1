import pytest
import torch

from mmseg_reservoir.core.pooling import EvidencePooling
from mmseg_reservoir.errors import ReservoirError


def test_an_expert_takes_less_of_the_others_the_more_it_learned_itself():
    pooling = EvidencePooling(n0=6.0)
    for index in [0, 1, 1, 2, 2, 2]:
        pooling.shares(index, count=3, images=1)
    # One more of the last: n = 1, 2, 4.
    expected = torch.tensor([6 / 7, 6 / 8, 0.0])
    torch.testing.assert_close(pooling.shares(2, count=3, images=1), expected)
    # And one of the first: n = 2, 2, 4.
    expected = torch.tensor([0.0, 6 / 8, 6 / 10])
    torch.testing.assert_close(pooling.shares(0, count=3, images=1), expected)


def test_evidence_is_counted_in_images():
    frames, batches = EvidencePooling(n0=100.0), EvidencePooling(n0=100.0)
    for pooling, images in ((frames, 1), (batches, 50)):
        pooling.shares(0, count=2, images=images)
    torch.testing.assert_close(frames.shares(1, 2, 1), torch.tensor([100 / 101, 0.0]))
    torch.testing.assert_close(batches.shares(1, 2, 1), torch.tensor([100 / 150, 0.0]))


def test_experts_may_be_added_on_the_way():
    pooling = EvidencePooling(n0=3.0)
    assert pooling.shares(0, count=1, images=1).tolist() == [0.0]
    assert pooling.shares(0, count=1, images=1).tolist() == [0.0]
    torch.testing.assert_close(pooling.shares(1, count=2, images=1), torch.tensor([3 / 5, 0.0]))
    torch.testing.assert_close(
        pooling.shares(2, count=3, images=1), torch.tensor([3 / 5, 3 / 4, 0.0])
    )
    assert pooling.images == [2, 1, 1]


def test_an_update_of_an_expert_is_not_for_itself():
    pooling = EvidencePooling(n0=50.0)
    for _ in range(3):
        for index in range(4):
            shares = pooling.shares(index, count=4, images=1)
            assert shares[index] == 0
            assert (shares > 0).sum() == 3


def test_without_prior_nothing_is_shared_with_young_experts_neither():
    pooling = EvidencePooling(n0=0.0)
    for index in [0, 1, 0, 2]:
        assert pooling.shares(index, count=3, images=1).tolist() == [0.0, 0.0, 0.0]


def test_with_a_large_prior_all_is_shared():
    pooling = EvidencePooling(n0=1e9)
    for _ in range(100):
        shares = pooling.shares(1, count=3, images=1)
    torch.testing.assert_close(shares, torch.tensor([1.0, 0.0, 1.0]))
    torch.testing.assert_close(pooling.shares(0, count=3, images=1), torch.tensor([0.0, 1.0, 1.0]))


def test_a_negative_prior_is_refused():
    with pytest.raises(ReservoirError, match="n0 must be a number of at least 0, got -1"):
        EvidencePooling(n0=-1)


def test_the_state_is_a_copy_that_goes_on_alike():
    one, other = EvidencePooling(n0=5.0), EvidencePooling(n0=5.0)
    for index in [0, 1, 1]:
        one.shares(index, count=2, images=1)
    state = one.state_dict()
    one.shares(0, count=2, images=1)
    other.load_state_dict(state)
    # What came after it is not in the state: n = 1, 3 and not 2, 3.
    torch.testing.assert_close(other.shares(1, count=2, images=1), torch.tensor([5 / 6, 0.0]))
    third = EvidencePooling(n0=5.0)
    third.load_state_dict(one.state_dict())
    for index in [0, 2, 1]:
        assert torch.equal(
            one.shares(index, count=3, images=1), third.shares(index, count=3, images=1)
        )
