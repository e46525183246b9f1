import pytest
import torch
from elsewhere import Elsewhere, sent

from mmseg_reservoir.core.state import copied_to

META = torch.device("meta")


def test_everything_nested_moves_but_the_optimizers_counter():
    state = {
        "optimizer": {"step": torch.tensor(3.0), "exp_avg": torch.ones(2)},
        "bank": [{"image": torch.ones(3), "label": 1}],
        "pair": (torch.ones(1), None),
        "loss": torch.tensor(1.0),
    }
    moved = copied_to(state, META)
    assert moved["optimizer"]["exp_avg"].device == META
    assert moved["bank"][0]["image"].device == META
    assert moved["pair"][0].device == META
    assert moved["loss"].device == META
    assert moved["optimizer"]["step"] == 3
    assert (moved["bank"][0]["label"], moved["pair"][1]) == (1, None)
    assert state["bank"][0]["image"].device.type == "cpu"


@pytest.mark.parametrize("send", [lambda state: state, sent])
def test_it_is_a_copy_in_which_what_was_shared_is_shared(send):
    momentum, weight = {"step": torch.zeros(()), "exp_avg": torch.zeros(2)}, torch.zeros(1)
    states = [{"optimizer": momentum, "w": weight}, {"optimizer": momentum, "w": weight}]
    one, other = copied_to(send(states), torch.device("cpu"))
    assert one["optimizer"] is other["optimizer"]
    assert one["w"] is other["w"]
    for tensor in (one["w"], *one["optimizer"].values()):
        assert not isinstance(tensor, Elsewhere)
        tensor.add_(1)
    for tensor in (weight, *momentum.values()):
        assert not tensor.any()
