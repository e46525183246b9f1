import pytest
import torch

from mmseg_reservoir.core.memory import StyleMemory
from mmseg_reservoir.errors import ReservoirError


def test_keeps_everything_until_full_and_current_is_last():
    memory = StyleMemory(capacity=3)
    assert memory.with_current(torch.tensor([9.0])).tolist() == [[9.0]]
    for i in range(3):
        memory.add(torch.tensor([float(i)]))
    assert memory.with_current(torch.tensor([9.0])).flatten().tolist() == [0, 1, 2, 9]
    memory.add(torch.tensor([3.0]))
    assert len(memory) == 3


def test_every_style_is_kept_with_the_same_probability():
    capacity, length, trials = 4, 20, 2000
    kept = torch.zeros(length)
    for seed in range(trials):
        memory = StyleMemory(capacity, seed=seed)
        for i in range(length):
            memory.add(torch.tensor([float(i)]))
        kept[memory.with_current(torch.zeros(1))[:-1].flatten().long()] += 1
    # Binomial with p = M / t = 0.2: five standard deviations are 0.045.
    assert (kept / trials - capacity / length).abs().max() < 0.045


def test_state_round_trip_continues_identically():
    one, other = StyleMemory(4, seed=1), StyleMemory(4, seed=2)
    for i in range(10):
        one.add(torch.tensor([float(i)]))
    other.load_state_dict(one.state_dict())
    for i in range(10, 40):
        one.add(torch.tensor([float(i)]))
        other.add(torch.tensor([float(i)]))
    current = torch.zeros(1)
    assert torch.equal(one.with_current(current), other.with_current(current))


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="M >= 1, got 0"):
        StyleMemory(0)
    large = StyleMemory(5)
    for _ in range(5):
        large.add(torch.zeros(2))
    with pytest.raises(ReservoirError, match="holds 5 styles, this one has room for 4"):
        StyleMemory(4).load_state_dict(large.state_dict())
