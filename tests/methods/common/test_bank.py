import math

import pytest
import torch

from mmseg_reservoir.methods.common.bank import BalancedBank


def image(value):
    return torch.full((1, 2, 2), float(value))


def labels(items):
    return sorted(item["label"] for item in items)


def values(items):
    return sorted(int(item["image"][0, 0, 0]) for item in items)


def test_the_score_grows_with_age_and_uncertainty():
    bank = BalancedBank(capacity=8, lambda_t=2.0, lambda_u=3.0)
    score = bank.score({"age": 4, "uncertainty": 0.7}, classes=5)
    assert score == pytest.approx(2 / (1 + math.exp(-0.5)) + 3 * 0.7 / math.log(5))


def test_a_class_with_room_is_taken_and_everything_ages():
    bank, items = BalancedBank(capacity=4), []
    for i in range(4):
        bank.add(items, image(i), label=i % 2, uncertainty=0.1, classes=2)
    assert labels(items) == [0, 0, 1, 1]
    assert [item["age"] for item in items] == [4, 3, 2, 1]
    assert bank.ages(items).tolist() == [1.0, 0.75, 0.5, 0.25]


def test_a_class_without_room_replaces_its_own_worst_or_nothing():
    bank, items = BalancedBank(capacity=4), []
    for i, uncertainty in enumerate((0.1, 0.6, 0.2)):
        bank.add(items, image(i), label=0, uncertainty=uncertainty, classes=2)
    # capacity / classes = 2: the third one competes with the first two, and is surer than one.
    assert values(items) == [0, 2]
    bank.add(items, image(3), label=0, uncertainty=0.69, classes=2)
    assert values(items) == [0, 2]
    assert [item["age"] for item in items] == [4, 2]  # time passes nevertheless


def test_age_makes_even_a_sure_sample_go():
    bank, items = BalancedBank(capacity=2), []
    bank.add(items, image(0), label=0, uncertainty=0.3, classes=2)
    bank.add(items, image(1), label=0, uncertainty=0.3, classes=2)
    assert values(items) == [1]  # as sure as the other one, but fresh


def test_a_full_bank_gives_room_to_a_small_class_at_the_cost_of_the_largest():
    bank, items = BalancedBank(capacity=3), []
    for i, (label, uncertainty) in enumerate([(0, 0.1), (0, 0.5), (1, 0.9)]):
        bank.add(items, image(i), label, uncertainty, classes=2)
    assert labels(items) == [0, 0, 1]
    bank.add(items, image(3), label=1, uncertainty=0.1, classes=2)
    assert labels(items) == [0, 1, 1]
    assert values(items) == [0, 2, 3]  # sample 2 is the least certain, but of a small class


def test_more_classes_than_places_hold_one_each():
    bank, items = BalancedBank(capacity=3), []
    for i in range(10):
        bank.add(items, image(i), label=i % 5, uncertainty=0.1, classes=1000)
    assert len(items) == 3
    assert len(set(labels(items))) == 3
    assert 9 in values(items)


def test_what_is_kept_is_a_copy_of_its_own():
    bank, items, batch = BalancedBank(capacity=4), [], torch.zeros(100, 1, 2, 2)
    bank.add(items, batch[3], label=0, uncertainty=0.1, classes=2)
    batch += 1
    assert values(items) == [0]
    assert items[0]["image"].untyped_storage().nbytes() == 4 * 4
