import math

import numpy as np

from mmseg_reservoir.routing.split import find_split

D = 12


def split(styles, times=None, run=4):
    times = np.arange(len(styles)) if times is None else times
    return find_split(styles, times, 1 / D, 3.0 * D, D, 0.1, run)


def draw(n, shift=0.0, seed=0):
    styles = np.random.default_rng(seed).normal(size=(n, D))
    styles[:, 0] += shift
    return styles


def test_two_halves_are_told_apart_where_they_meet():
    part, evidence = split(np.concatenate([draw(12, seed=1), draw(8, shift=6.0, seed=2)]))
    assert part.tolist() == [False] * 12 + [True] * 8
    assert evidence > 20


def test_earlier_visits_of_the_newest_frames_are_found():
    blocks = [draw(6, seed=1), draw(6, 6.0, seed=2), draw(6, seed=3), draw(6, 6.0, seed=4)]
    part, evidence = split(np.concatenate(blocks))
    assert part.tolist() == ([False] * 6 + [True] * 6) * 2
    assert evidence > 20


def test_one_domain_gives_no_evidence():
    assert max(split(draw(30, seed=seed))[1] for seed in range(20)) < 5


def test_odd_frames_that_never_stay_are_not_a_domain():
    styles = draw(30, seed=1)
    styles[::3, 0] += 8.0
    styles[-5:, 0] = 8.0
    assert split(styles)[1] == -math.inf


def test_a_change_at_a_gap_is_free():
    styles = np.concatenate([draw(8, seed=1), draw(8, shift=6.0, seed=2)])
    times = np.arange(16) + 10 * (np.arange(16) >= 8)
    gain = split(styles, times)[1] - split(styles)[1]
    assert np.isclose(gain, math.log(0.95) - math.log(0.05))
