import numpy as np
import pytest

from mmseg_reservoir.core.frame_memory import FrameMemory


def make_memory(labels, styles, **options):
    memory = FrameMemory(styles.shape[1], 4.0, **options)
    memory.k = max(labels) + 1
    for label, style in zip(labels, styles, strict=True):
        memory.add(style, label)
    return memory


def test_every_domain_keeps_its_newest_members_however_long_another_lasts():
    styles = np.arange(60.0)[:, None]
    memory = make_memory([1] * 10 + [2] * 40 + [0] * 10, styles, size=8, recent=3)
    assert memory.counts().tolist() == [3, 8, 8]
    assert memory.means()[:, 0].tolist() == [0.0, 5.5, 45.5]
    assert memory.tail(20)[:, 0].tolist() == [57.0, 58.0, 59.0]


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
