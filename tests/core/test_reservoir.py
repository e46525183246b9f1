import pytest
import torch

from mmseg_reservoir.core.reservoir import Reservoir
from mmseg_reservoir.errors import ReservoirError


def test_commit_touches_one_row_only():
    reservoir = Reservoir(torch.zeros(3), {"n": 0}, k_max=4)
    reservoir.add(torch.ones(3), {"n": 1})
    reservoir.add(torch.full((3,), 2.0), {"n": 2})
    reservoir.commit(1, torch.full((3,), 9.0), {"n": 9})
    assert reservoir.experts[:, 0].tolist() == [0, 9, 2]
    assert [reservoir.checkout(i)[1]["n"] for i in range(3)] == [0, 9, 2]


def test_add_copies_and_says_when_full():
    vector = torch.ones(3)
    reservoir = Reservoir(vector, {}, k_max=2)
    vector.zero_()
    assert reservoir.experts.tolist() == [[1, 1, 1]]
    assert reservoir.source.tolist() == [1, 1, 1]
    assert reservoir.add(vector, {}) == 1
    with pytest.raises(ReservoirError, match="full: K_max = 2"):
        reservoir.add(vector, {})


def test_state_round_trip_is_a_copy():
    one = Reservoir(torch.zeros(3), {"m": torch.zeros(2)}, k_max=4)
    one.add(torch.ones(3), {"m": torch.ones(2)})
    state = one.state_dict()
    one.commit(1, torch.full((3,), 7.0), one.checkout(1)[1])
    one.checkout(1)[1]["m"] += 5
    other = Reservoir(torch.full((3,), 3.0), {}, k_max=4)
    other.load_state_dict(state)
    assert other.experts.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert other.checkout(1)[1]["m"].tolist() == [1, 1]
    assert other.source.tolist() == [0, 0, 0]
    with pytest.raises(ReservoirError, match=r"\(2, 3\).*room for \(1, 3\)"):
        Reservoir(torch.zeros(3), {}, k_max=1).load_state_dict(state)


def test_the_state_of_another_device_comes_to_this_one():
    momentum = {"step": torch.tensor(2.0), "exp_avg": torch.ones(3)}
    one = Reservoir(torch.zeros(3), {"optimizer": momentum, "bank": [torch.ones(2)]}, k_max=4)
    one.add(torch.ones(3), {"optimizer": momentum, "bank": []})
    other = Reservoir(torch.zeros(3, device="meta"), {}, k_max=4)
    other.load_state_dict(one.state_dict())
    parameters, state = other.checkout(0)
    for tensor in (parameters, other.source, state["optimizer"]["exp_avg"], state["bank"][0]):
        assert tensor.device.type == "meta"
    assert state["optimizer"]["step"].device.type == "cpu"
    assert other.checkout(1)[1]["optimizer"] is state["optimizer"]
