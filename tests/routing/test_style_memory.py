import pytest
import torch
from elsewhere import sent

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import find, table
from mmseg_reservoir.routing.style_memory import PublishedReservoirSampling, ReservoirSampling


def fill(memory, values, k=1):
    """Offer one-dimensional styles, all undecided between k clusters."""
    for value in values:
        n = len(memory) + 1
        memory.add(torch.tensor([float(value)]), torch.full((n, k), 1 / k))
    return [] if memory.styles is None else memory.styles.flatten().tolist()


def test_keeps_everything_until_full_and_current_is_last():
    memory = ReservoirSampling(capacity=3)
    assert memory.with_current(torch.tensor([9.0])).tolist() == [[9.0]]
    assert fill(memory, range(3)) == [0, 1, 2]
    assert memory.with_current(torch.tensor([9.0])).flatten().tolist() == [0, 1, 2, 9]
    fill(memory, [3])
    assert len(memory) == 3


def test_every_style_is_kept_with_the_same_probability():
    capacity, length, trials = 4, 20, 2000
    kept = torch.zeros(length)
    for seed in range(trials):
        kept[torch.tensor(fill(ReservoirSampling(capacity, seed=seed), range(length))).long()] += 1
    # Binomial with p = M / t = 0.2: five standard deviations are 0.045.
    assert (kept / trials - capacity / length).abs().max() < 0.045


def test_published_sampling_draws_among_earlier_styles_and_forgets_its_count():
    draws = []

    def draw(below):
        draws.append(below)
        return 0

    memory = PublishedReservoirSampling(2, draw=draw)
    assert fill(memory, range(25)) == [24, 1]
    assert draws == [*range(2, 22), 3, 4, 5]  # the count falls back to M beyond 10 M
    never = PublishedReservoirSampling(2, draw=lambda below: below - 1)
    assert fill(never, range(25)) == [0, 2]  # the first draw hits position 1, later ones miss


def test_fifo_keeps_the_newest_in_order():
    assert fill(find("memory", "fifo")(3), range(7)) == [4, 5, 6]


def test_replace_takes_the_place_of_the_weakest_typical_member():
    memory = find("memory", "replace")(4)
    fill(memory, range(4), k=2)
    q = torch.tensor([0.9, 0.2, 0.7, 0.4])
    for own, expected in ((0.6, [0, 1, 2, 3]), (0.8, [0, 1, 9, 3])):
        # Of cluster 0 the 4 // 2 most typical are 0.9 and 0.7; 0.7 gives way to 0.8, not to 0.6.
        column = torch.cat([q, torch.tensor([own])])
        memory.add(torch.tensor([9.0]), torch.stack([column, 1 - column], dim=1))
        assert memory.styles.flatten().tolist() == expected


def test_none_remembers_nothing():
    memory = find("memory", "none")()
    assert fill(memory, range(5)) == []
    assert memory.with_current(torch.ones(1)).tolist() == [[1.0]]


def test_a_memory_per_expert_grows_with_k():
    memory = find("memory", "fifo")(capacity=8, per_expert=True, k_max=4)
    assert fill(memory, range(5), k=1) == [3, 4]
    assert fill(memory, range(5, 9), k=2) == [5, 6, 7, 8]
    assert fill(memory, range(9, 30), k=4) == [22, 23, 24, 25, 26, 27, 28, 29]


@pytest.mark.parametrize("kind", table("memory"))
def test_state_round_trip_continues_identically(kind):
    one, other = find("memory", kind)(4, seed=1), find("memory", kind)(4, seed=2)
    fill(one, range(10))
    other.load_state_dict(one.state_dict())
    assert fill(one, range(10, 40)) == fill(other, range(10, 40))


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="whole number of at least 1, got 0"):
        ReservoirSampling(0)
    with pytest.raises(ReservoirError, match="capacity must be at least k_max = 16, got 8"):
        ReservoirSampling(8, per_expert=True)
    large = ReservoirSampling(5)
    fill(large, range(5))
    with pytest.raises(ReservoirError, match="holds 5 styles, this one has room for 4"):
        ReservoirSampling(4).load_state_dict(large.state_dict())


def test_the_generator_stays_on_the_cpu():
    one, other = ReservoirSampling(4, seed=1), ReservoirSampling(4, seed=2)
    fill(one, range(10))
    state = one.state_dict()
    other.load_state_dict(state | {"generator": sent(state["generator"])})
    assert fill(one, range(10, 40)) == fill(other, range(10, 40))
