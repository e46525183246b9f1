import numpy as np
import pytest
from elsewhere import sent

from mmseg_reservoir.routing.frame_memory import FrameMemory


def make_memory(labels, styles, **options):
    memory = FrameMemory(styles.shape[1], 4.0, **options)
    memory.k = max(labels) + 1
    for label, style in zip(labels, styles, strict=True):
        memory.add(style, label)
    return memory


def test_every_domain_keeps_its_newest_members_however_long_another_lasts():
    styles = np.random.default_rng(0).normal(size=(60, 20))
    styles[:, 0] = np.arange(60.0) / 100
    memory = make_memory([1] * 10 + [2] * 40 + [0] * 10, styles, size=8, recent=3)
    assert memory.counts().tolist() == [3, 8, 8]
    np.testing.assert_allclose(memory.means()[:, 0], [0.0, 0.055, 0.455])
    assert memory.tail(20)[:, 0].tolist() == [0.57, 0.58, 0.59]


def test_a_label_that_changes_moves_the_means():
    memory = make_memory([1, 1, 1, 1], np.array([[0.0], [0.0], [6.0], [6.0]]))
    memory.k = 3
    memory.labels[2:] = 2
    assert memory.means()[:, 0].tolist() == [0.0, 0.0, 6.0]


def test_spread_does_not_grow_when_a_domain_swallows_another():
    noise = np.random.default_rng(0).normal(size=(400, 5))
    noise[200:] += 10
    spreads, common = make_memory([1] * 400, noise, size=400).spreads()
    assert spreads[0] == 4.0
    assert spreads[1] == pytest.approx(5, rel=0.2)
    assert common == pytest.approx(spreads[1], rel=0.05)


def test_few_members_lean_on_the_source():
    spreads, common = make_memory([1, 1], np.array([[0.0], [2.0]]), prior=2.0).spreads()
    assert common == pytest.approx((2 * 4 + 2) / 3)
    assert spreads[1] == pytest.approx((2 * common + 2) / 3)


def test_frames_of_a_fade_are_of_no_domain():
    noise = np.random.default_rng(0).normal(size=(6, 20))
    here, there = noise[:3], noise[3:] + 5
    way = [here[-1] + share * (there[0] - here[-1]) for share in (0.25, 0.5, 0.75)]
    memory = make_memory([1] * 9, np.concatenate([here, way, there]))
    assert memory.fading.tolist() == [False] * 3 + [True] * 3 + [False] * 3
    assert memory.counts().tolist() == [0, 6]
    np.testing.assert_allclose(memory.means()[1], np.concatenate([here, there]).mean(axis=0))
    np.testing.assert_allclose(memory.tail(9), there)
    squares = [np.square(np.diff(part, axis=0)).sum(axis=1) / 2 for part in (here, there)]
    assert memory.spreads()[1] == pytest.approx((2 * 4 + np.sum(squares)) / (2 + 4))


def test_a_fade_is_seen_while_it_lasts_and_forgotten_when_it_ends():
    memory = make_memory([1, 1, 1], np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.1]]))
    assert memory.fading.tolist() == [False, True, True]
    memory.add(np.array([1.0, 0.0]), 1)
    assert memory.fading.tolist() == [False, True, False, False]


@pytest.mark.parametrize("send", [dict, sent])
def test_state_round_trip(send):
    memory = make_memory([1, 1, 2], np.array([[0.0], [2.0], [9.0]]))
    other = FrameMemory(1, 1.0)
    other.load_state_dict(send(memory.state_dict()))
    for one in (memory, other):
        one.add(np.array([9.5]), 2)
    assert other.labels.tolist() == memory.labels.tolist() == [1, 1, 2, 2]
    assert other.fading.tolist() == memory.fading.tolist()
    np.testing.assert_array_equal(other.means(), memory.means())
