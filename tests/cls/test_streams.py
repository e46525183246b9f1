from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from small_domains import NAMES, SmallDomains, who

from mmseg_reservoir.cls.stream import correlated, split_by_dirichlet
from mmseg_reservoir.cls.streams import (
    RAMP,
    CCCStream,
    build_stream,
    dirichlet_turns,
    uniform_turns,
)
from mmseg_reservoir.errors import ReservoirError


def make(kind, data=None, **options):
    options = {"type": kind, "batch_size": 4, "rounds": 3, **options}
    return build_stream(options, data or SmallDomains())


def stays(batches):
    return [(domain, len(list(group))) for domain, group in groupby(b.domain for b in batches)]


def test_csc_visits_all_domains_in_order_again_and_again():
    stream = make("csc")
    batches = list(stream)
    assert len(batches) == len(stream) == 27
    assert [batch.index for batch in batches] == list(range(27))
    assert stays(batches) == [(name, 3) for name in NAMES] * 3
    assert [batch.round for batch in batches] == [1] * 9 + [2] * 9 + [3] * 9
    assert [len(batch.labels) for batch in batches[:3]] == [4, 4, 2]


def test_csc_is_the_default_with_twenty_rounds():
    stream = build_stream({}, SmallDomains())
    assert (stream.kind, stream.rounds, stream.batch_size) == ("csc", 20, 200)


@pytest.mark.parametrize("turns", ["dirichlet", "uniform"])
def test_cdc_has_the_same_images_in_unpredictable_turns(turns):
    data = SmallDomains(count=40)
    batches = list(make("cdc", data, turns=turns))
    for round in (1, 2, 3):
        seen = Counter((b.domain, n) for b in batches if b.round == round for n in who(b))
        assert seen == Counter((name, n) for name in NAMES for n in range(40))
    in_rounds = [[b.domain for b in batches if b.round == round] for round in (1, 2, 3)]
    assert in_rounds[0] != in_rounds[1] != in_rounds[2]
    assert len(stays(batches)) > len(NAMES) * 3
    again = list(make("cdc", data, turns=turns))
    assert [b.domain for b in again] == [b.domain for b in batches]


def test_uniform_turns_are_shorter_than_those_of_a_dirichlet():
    data = SmallDomains(count=120)
    uniform, dirichlet = (make("cdc", data, turns=t) for t in ("uniform", "dirichlet"))
    assert len(stays(uniform)) > 2 * len(stays(dirichlet))
    assert uniform.record()["turns"] == "uniform"
    assert dirichlet.record()["concentration"] == 1.0
    assert uniform.record()["order"] != dirichlet.record()["order"]


def test_gradual_severities_rise_and_fall():
    batches = list(make("gradual", SmallDomains(severity=5), rounds=2, batch_size=10))
    assert [b.severity for b in batches] == list(RAMP) * 6
    assert stays(batches) == [(name, 9) for name in NAMES] * 2
    for batch in batches:
        assert round(float(batch.images[0, 2, 0, 0]) * 255) == batch.severity
    # Severities of one ramp have orders of their own.
    assert who(batches[0]) != who(batches[8])
    short = make("gradual", SmallDomains(severity=5), severities=[1, 5])
    assert short.record()["severities"] == [1, 5]
    assert [b.severity for b in list(short)[:6]] == [1, 1, 1, 5, 5, 5]


def test_a_gradual_stream_needs_severities():
    with pytest.raises(ReservoirError, match="Small has none"):
        make("gradual")
    with pytest.raises(ReservoirError, match="severity must be 1, 2, 3, 4 or 5, got 6"):
        make("gradual", SmallDomains(severity=5), severities=[5, 6])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # A benchmark that is imported registers a stream of its own, between these.
        (dict(type="ctc"), r"unknown stream 'ctc'.*valid: ccc, cdc, csc, (\w+, )?gradual"),
        (dict(type="csc", round=3), "stream has no option 'round'.*did you mean 'rounds'"),
        (dict(type="csc", turns="uniform"), "stream has no option 'turns'"),
        (
            dict(type="csc", batch_size=2.5),
            "stream.batch_size must be a whole number .* got 2.5",
        ),
        (dict(type="cdc", turns="random"), "turns must be one of dirichlet, uniform, got 'random'"),
        (dict(type="cdc", concentration=0), "concentration must be a number above 0"),
        (dict(type="cdc", slots=0), "slots must be a whole number of at least 1"),
        (dict(type="ccc"), "'ccc' does not fit Small"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ReservoirError, match=message):
        build_stream(options, SmallDomains())


def test_ccc_options_are_checked():
    with pytest.raises(ReservoirError, match="limit must be a whole number of at least 1"):
        CCCStream(None, limit=0)


def rng(seed=0):
    return np.random.default_rng(seed)


def run_lengths(turns):
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
    runs = np.mean(run_lengths(labels[correlated(labels, 0.1, rng())]))
    assert runs > 100  # 10,000 images, at most 100 stays
    assert runs > 3 * np.mean(run_lengths(labels[correlated(labels, 0.1, rng(), slots=100)]))


def test_turns_use_every_batch_once():
    batches = [5, 3, 8]
    for turns in (uniform_turns(batches, rng()), dirichlet_turns(batches, rng())):
        assert np.bincount(turns).tolist() == batches


def test_uniform_turns_change_often_and_dirichlet_turns_stay():
    batches = [50] * 15
    uniform, dirichlet = uniform_turns(batches, rng()), dirichlet_turns(batches, rng())
    assert np.mean(run_lengths(uniform)) < 1.2
    # At most one stay for each domain and slot, of lengths that differ.
    assert len(run_lengths(dirichlet)) <= 45
    assert np.std(run_lengths(dirichlet)) > 5
    assert sorted(set(run_lengths(dirichlet_turns(batches, rng(), slots=1)))) == [50]
