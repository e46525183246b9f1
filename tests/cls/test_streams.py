from collections import Counter
from itertools import groupby

import pytest
from small_domains import NAMES, SmallDomains, who

from mmseg_reservoir.cls.streams import RAMP, CCCStream, build_stream
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
