import numpy as np

from mmseg_reservoir.cls.orders import (
    correlated,
    dirichlet_turns,
    split_by_dirichlet,
    uniform_turns,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def stays(turns):
    """Lengths of runs of the same thing."""
    turns = np.asarray(turns)
    cuts = np.flatnonzero(np.diff(turns)) + 1
    return [len(part) for part in np.split(turns, cuts)]


def test_shares_add_up_and_concentration_evens_them_out():
    for concentration in (0.01, 1.0, 1000.0):
        sizes = split_by_dirichlet(100, 4, concentration, rng())
        assert sum(sizes) == 100
        assert min(sizes) >= 0

    def largest(concentration):
        shares = [split_by_dirichlet(100, 4, concentration, rng(seed)) for seed in range(20)]
        return np.mean([max(sizes) for sizes in shares])

    assert largest(0.01) > 90
    assert largest(1000.0) < 30


def test_correlation_brings_classes_together():
    labels = rng(1).integers(0, 10, 2000)
    order = correlated(labels, 0.1, rng())
    assert sorted(order) == list(range(2000))

    def classes_per_batch(order):
        return np.mean([len(set(labels[part])) for part in np.split(order, 100)])

    random = classes_per_batch(rng().permutation(2000))
    assert classes_per_batch(order) < 0.5 * random
    # The weaker the correlation, the more classes meet in a batch.
    assert classes_per_batch(order) < classes_per_batch(correlated(labels, 100.0, rng()))
    assert np.array_equal(order, correlated(labels, 0.1, rng()))


def test_a_class_has_as_many_slots_as_there_are_classes():
    labels = np.repeat(np.arange(10), 1000)
    runs = np.mean(stays(labels[correlated(labels, 0.1, rng())]))
    assert runs > 100  # 10,000 images, at most 100 stays
    assert runs > 3 * np.mean(stays(labels[correlated(labels, 0.1, rng(), slots=100)]))


def test_turns_use_every_batch_once():
    batches = [5, 3, 8]
    for turns in (uniform_turns(batches, rng()), dirichlet_turns(batches, rng())):
        assert np.bincount(turns).tolist() == batches


def test_uniform_turns_change_often_and_dirichlet_turns_stay():
    batches = [50] * 15
    uniform, dirichlet = uniform_turns(batches, rng()), dirichlet_turns(batches, rng())
    assert np.mean(stays(uniform)) < 1.2
    # At most one stay for each domain and slot, of lengths that differ.
    assert len(stays(dirichlet)) <= 45
    assert np.std(stays(dirichlet)) > 5
    assert sorted(set(stays(dirichlet_turns(batches, rng(), slots=1)))) == [50]
