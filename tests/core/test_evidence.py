import pytest
import torch

from mmseg_reservoir.core.evidence import StickyFilter, Window
from mmseg_reservoir.errors import ReservoirError


def logs(*values):
    return torch.tensor(values)


def test_filter_is_bayes_rule_with_sticky_transitions():
    filter = StickyFilter(0.2)
    filter.open()
    prior = torch.tensor([0.1, 0.9])
    expected = prior * logs(1.0, 0.0).exp()
    torch.testing.assert_close(filter.update(logs(1.0, 0.0)), expected / expected.sum())


def test_doubt_stays_clear_evidence_switches_at_once():
    filter = StickyFilter(0.1)
    filter.open()
    assert filter.update(logs(1.0, 0.0)).argmax() == 1
    assert filter.update(logs(9.0, 0.0)).argmax() == 0


def test_doubt_that_lasts_switches_in_the_end():
    filter = StickyFilter(0.1)
    filter.open()
    found = [int(filter.update(logs(1.5, 0.0)).argmax()) for _ in range(5)]
    assert found[0] == 1
    assert found[-1] == 0


def test_an_impossible_domain_gets_nothing():
    filter = StickyFilter(0.1)
    filter.open()
    assert filter.update(logs(-float("inf"), -50.0)).tolist() == [0, 1]


def test_window_is_emptied_by_a_change_and_gives_every_frame_once():
    window = Window(3)
    for i in range(4):
        window.push(torch.tensor([float(i)]), 0)
    assert window.full
    assert window.frames.flatten().tolist() == [1, 2, 3]
    assert window.take_fresh().flatten().tolist() == [1, 2, 3]
    window.push(torch.tensor([4.0]), 0)
    assert window.take_fresh().flatten().tolist() == [4]
    other = Window(3)
    other.load_state_dict(window.state_dict())
    assert torch.equal(other.frames, window.frames)
    window.push(torch.tensor([5.0]), 1)
    assert not window.full
    assert other.full


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match="switch is a probability"):
        StickyFilter(0)
    with pytest.raises(ReservoirError, match="at least 2 frames, got 1"):
        Window(1)
