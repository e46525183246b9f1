import json
import random

import numpy as np
import pytest
import torch
from small_domains import SmallDomains, who

from mmseg_reservoir.cls.streams import RecurringStream
from mmseg_reservoir.errors import ReservoirError


def stream(count=10, **options):
    return RecurringStream(SmallDomains(count=count), **{"batch_size": 4, "rounds": 2, **options})


def test_batches_are_images_with_their_labels():
    for batch in stream():
        assert batch.images.shape[1:] == (3, 2, 2)
        assert batch.images.dtype == torch.float32
        assert batch.labels.dtype == torch.int64
        assert [number % 4 for number in who(batch)] == batch.labels.tolist()


def test_the_seed_alone_decides():
    def orders(seed):
        return [who(batch) for batch in stream(seed=seed)]

    np.random.seed(0)
    torch.manual_seed(0)
    first = orders(3)
    np.random.seed(1)
    torch.manual_seed(1)
    random.seed(1)
    states = np.random.get_state()[1].copy(), torch.get_rng_state()
    assert orders(3) == first
    assert orders(4) != first
    assert np.array_equal(states[0], np.random.get_state()[1])
    assert torch.equal(states[1], torch.get_rng_state())


def test_a_stream_can_be_read_again():
    again = stream(shuffle="visit", seed=1)
    assert [who(b) for b in again] == [who(b) for b in again]


def test_shuffling():
    def rounds(shuffle):
        batches = list(stream(shuffle=shuffle))
        return [
            [n for b in batches if b.round == r and b.domain == "snow" for n in who(b)]
            for r in (1, 2)
        ]

    for shuffle in ("once", "visit", "never"):
        for order in rounds(shuffle):
            assert sorted(order) == list(range(10))
    assert rounds("never") == [list(range(10))] * 2
    first, second = rounds("once")
    assert first == second != list(range(10))
    first, second = rounds("visit")
    assert first != second
    # Domains of the same length have orders of their own.
    batches = list(stream())
    assert who(batches[0]) != who(batches[3])


def test_threads_change_nothing():
    plain, threaded = list(stream()), list(stream(workers=3))
    assert [(b.domain, b.round, b.index, who(b)) for b in plain] == [
        (b.domain, b.round, b.index, who(b)) for b in threaded
    ]


def test_domains_are_opened_once():
    plain = stream(rounds=5)
    list(plain)
    assert plain.data.opened == [("fog", None), ("snow", None), ("noise", None)]


def test_correlated_labels():
    def classes(correlation):
        batches = stream(count=200, rounds=1, batch_size=10, seed=2, correlation=correlation)
        return np.mean([len(batch.labels.unique()) for batch in batches])

    assert classes(0.1) < 0.85 * classes(None)
    batches = list(stream(count=200, rounds=1, correlation=0.1))
    assert sorted(n for b in batches if b.domain == "fog" for n in who(b)) == list(range(200))


def test_the_record_is_plain_and_tells_orders_apart():
    record = stream(seed=7).record()
    assert json.loads(json.dumps(record)) == record
    about = {name: record[name] for name in ("kind", "seed", "domains", "rounds", "batches")}
    assert about == dict(kind="csc", seed=7, domains=["fog", "snow", "noise"], rounds=2, batches=18)
    assert record["images"] == 60
    assert record["data"]["title"] == "Small"
    assert set(record["manifests"]) == {"fog", "snow", "noise"}
    assert record["order"] == stream(seed=7).record()["order"]
    others = [dict(seed=8), dict(seed=7, rounds=3), dict(seed=7, batch_size=5)]
    hashes = {stream(**options).record()["order"] for options in others}
    assert len(hashes | {record["order"]}) == 4


def test_the_order_of_a_seed_is_written_down():
    """Fails if a new version of anything changes the streams of old records."""
    order = stream(seed=0).record()["order"]
    assert order == "9a32d7d38f209d22f68b30da78f37fdc1e553d95c95af3763ea44a73796a5c87"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
        (dict(rounds=0), "rounds must be a whole number of at least 1"),
        (dict(seed=-1), "seed must be a whole number of at least 0, got -1"),
        (dict(shuffle="always"), "shuffle must be one of once, visit, never, got 'always'"),
        (dict(correlation=0), "correlation must be a number above 0, or None"),
        (dict(correlation=0.1, shuffle="never"), 'leave out shuffle="never"'),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ReservoirError, match=message):
        stream(**options)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_may_be_entered_at_any_batch(workers):
    def seen(batches):
        return [(batch.index, batch.domain, batch.round, who(batch)) for batch in batches]

    whole = stream(seed=1, workers=workers)
    for start in (0, 1, 7, 17, 18):
        assert seen(whole.from_batch(start)) == seen(whole)[start:]
