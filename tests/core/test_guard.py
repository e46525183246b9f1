import io
import itertools
import json
import logging
from math import exp, log, sqrt

import pytest
import torch
from logit_net import as_image, some_logits

from mmseg_reservoir.core.expert_health import ProbePair
from mmseg_reservoir.core.guard import LabelGuard
from mmseg_reservoir.errors import ReservoirError


def labelled(*labels, sure=2.0, classes=4):
    """Logits of samples with these labels, ``sure`` above those of the other classes."""
    return sure * torch.eye(classes)[list(labels)]


def doubt_of(sure, classes=4):
    return (classes - 1) / (exp(sure) + classes - 1)


def answers(logits):
    return logits if isinstance(logits, ProbePair) else ProbePair(logits)


def probe(guard, expert, source, index=0):
    """Let batches of an expert pass until the guard wants to see one; its verdict."""
    while not guard.is_due(index):
        pass
    return guard.judge(index, answers(expert), answers(source))


def batches_of_probes(guard, count, expert, source, index=0):
    """At which of ``count`` batches the guard looked."""
    found = []
    for batch in range(1, count + 1):
        if guard.is_due(index):
            guard.judge(index, answers(expert), answers(source))
            found.append(batch)
    return found


def prepared(batches, **options):
    guard = LabelGuard(**options)
    guard.prepare(lambda logits: logits, batches)
    return guard.margin


FOUR = labelled(0, 1, 2, 3)
SWAPPED = labelled(1, 0, 3, 2)  # another label everywhere, and the same histogram
UNSURE = labelled(0, 1, 2, 3, sure=0.1)
LOST = labelled(0, 1, 2, 2)
LOST_NATS = 0.5 * log(2)  # entropies of (1/4, 1/4, 1/4, 1/4) and of (1/4, 1/4, 1/2)


# The margin.


def test_the_margin_is_what_chance_does_to_an_average_of_probes():
    batches = [labelled(0, 1), labelled(0, 0)]  # entropies log 2 and 0
    deviation = log(2) / sqrt(2)
    assert prepared(batches) == pytest.approx(deviation / 3)  # sqrt(1.8 / 0.2)
    assert prepared(batches, momentum=0.0) == pytest.approx(deviation)
    assert prepared(batches, momentum=0.6) == pytest.approx(deviation / 2)


def test_the_margin_of_maps_is_what_chance_does_to_one_frame():
    frames = [labels.T[None, :, :, None] for labels in (labelled(0, 1), labelled(0, 0))]
    assert prepared(frames) == pytest.approx(log(2) / sqrt(2))


def test_the_margin_is_measured_on_what_the_source_model_predicts():
    guard = LabelGuard(momentum=0.0)
    guard.prepare(lambda names: labelled(*names), [[0, 1, 2, 3], [0, 0, 1, 1], [2, 2, 2, 2]])
    assert guard.margin == pytest.approx(log(2))  # the deviation of log 4, log 2 and 0


def test_the_margin_has_a_floor():
    assert prepared([FOUR, FOUR, FOUR]) == 0.03
    assert prepared([FOUR, FOUR], least=0.2) == 0.2
    assert prepared([labelled(0, 1), labelled(0, 0)], least=0.2) == 0.2
    assert prepared([labelled(0, 1), labelled(0, 0)], least=0.1) > 0.16


def test_no_more_source_batches_are_predicted_than_tell_something_new():
    seen = []
    guard = LabelGuard()
    guard.prepare(lambda logits: seen.append(1) or logits, itertools.repeat(FOUR))
    assert len(seen) == 64


def test_a_margin_that_is_given_needs_no_source():
    assert prepared(None, margin=0.4) == 0.4
    assert prepared([labelled(0, 1), labelled(0, 0)], margin=0.4) == 0.4


@pytest.mark.parametrize("batches", [None, [], [FOUR]], ids=["none", "empty", "one"])
def test_without_two_source_batches_the_margin_is_a_guess_and_that_is_said(batches, caplog):
    with caplog.at_level(logging.WARNING):
        assert prepared(batches, least=0.07) is None
    assert "uses 0.070 nats, or 0.350 if the prediction is a map" in caplog.text
    for mirrored, margin in ((None, 0.07), (FOUR, 0.35)):
        guard = LabelGuard(least=0.07)
        guard.prepare(lambda logits: logits, batches)
        probe(guard, ProbePair(FOUR, mirrored), ProbePair(FOUR, mirrored))
        assert guard.margin == pytest.approx(margin)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "LabelGuard.every must be a whole number of at least 1, got 0"),
        ({"momentum": 1.0}, r"momentum must be a number in \[0, 1\), got 1.0"),
        ({"momentum": -0.1}, r"momentum must be a number in \[0, 1\), got -0.1"),
        ({"least": 0.0}, "least must be a number above 0, got 0.0"),
        ({"waver": 0.0}, "waver must be a number above 0, got 0.0"),
        ({"margin": 0.0}, "margin must be a number above 0, or None, got 0.0"),
        ({"margin": -1.0}, "above 0, or None, got -1.0"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(ReservoirError, match=message):
        LabelGuard(**options)


# When it looks.


def test_while_all_is_quiet_it_looks_less_and_less_often():
    found = batches_of_probes(LabelGuard(margin=0.1), 64, FOUR, FOUR)
    assert found == [1, 3, 7, 15, 31, 47, 63]  # 1, 2, 4, 8 and then always 16 batches later
    found = batches_of_probes(LabelGuard(margin=0.1, every=3), 12, FOUR, FOUR)
    assert found == [1, 3, 6, 9, 12]
    assert batches_of_probes(LabelGuard(margin=0.1, every=1), 4, FOUR, FOUR) == [1, 2, 3, 4]


def test_after_an_alarm_it_looks_at_the_next_batch():
    guard = LabelGuard(margin=0.1, momentum=0.0)
    assert batches_of_probes(guard, 14, FOUR, FOUR) == [1, 3, 7]
    assert batches_of_probes(guard, 4, SWAPPED, FOUR) == [1, 2, 3, 4]
    # The alarm of the last one, and from there on as at the start.
    assert batches_of_probes(guard, 15, FOUR, FOUR) == [1, 3, 7, 15]


# What it says.


def test_who_agrees_with_the_source_keeps_all():
    guard = LabelGuard(margin=0.01)
    source = some_logits()
    assert [probe(guard, source, source) for _ in range(10)] == [1.0] * 10
    assert guard.scale(0) == 1
    assert guard.report()["events"] == []
    assert guard.report()["experts"][0]["alarms"] == 0


def test_who_loses_classes_goes_back():
    guard = LabelGuard(margin=0.1)
    keep = probe(guard, LOST, UNSURE)
    excess = LOST_NATS / 0.1
    assert keep == pytest.approx(1 / (2 * excess))
    assert guard.scale(0) == pytest.approx(keep)
    (event,) = guard.report()["events"]
    assert event == {
        "step": 1,
        "expert": 0,
        "lost": pytest.approx(excess),
        "drift": pytest.approx(0.25 / doubt_of(0.1), rel=1e-5),
        "keep": keep,
        "scale": keep,
    }


def test_a_loss_of_classes_below_the_margin_is_none():
    assert probe(LabelGuard(margin=1.01 * LOST_NATS), LOST, UNSURE) == 1
    assert probe(LabelGuard(margin=0.99 * LOST_NATS), LOST, UNSURE) < 0.5


def test_to_find_more_classes_than_the_source_is_no_loss():
    guard = LabelGuard(margin=0.01)
    assert probe(guard, labelled(0, 1, 2, 3), labelled(0, 1, 2, 2, sure=0.1)) == 1


def test_who_contradicts_the_source_more_than_it_doubts_goes_back():
    guard = LabelGuard(margin=0.1)
    keep = probe(guard, SWAPPED, FOUR)
    assert keep == pytest.approx(doubt_of(2.0) / 2, rel=1e-5)
    assert guard.scale(0) == pytest.approx(keep)
    (event,) = guard.report()["events"]
    assert event["lost"] == pytest.approx(0, abs=1e-6)
    assert event["drift"] == pytest.approx(1 / doubt_of(2.0), rel=1e-5)


@pytest.mark.parametrize(("sure", "is_alarm"), [(1.0, False), (1.2, True)])
def test_the_doubt_of_the_source_is_the_bound_of_contradiction(sure, is_alarm):
    # Doubts 0.525 and 0.475: half of the samples are too many for the second one only.
    assert (doubt_of(sure) < 0.5) == is_alarm
    keep = probe(LabelGuard(margin=0.1), labelled(1, 0, 2, 3), labelled(0, 1, 2, 3, sure=sure))
    assert keep == pytest.approx(doubt_of(sure) if is_alarm else 1.0)


def test_the_larger_of_the_two_signs_decides():
    guard = LabelGuard(margin=0.1)
    keep = probe(guard, LOST, labelled(0, 1, 2, 3, sure=5.0))
    drift, loss = 0.25 / doubt_of(5.0), LOST_NATS / 0.1
    assert drift > loss > 1
    assert keep == pytest.approx(1 / (2 * drift), rel=1e-4)


def test_a_source_without_any_doubt_may_be_agreed_with():
    sure = labelled(0, 1, 2, 3, sure=200.0)
    assert probe(LabelGuard(margin=0.1), sure, sure) == 1
    assert 0 < probe(LabelGuard(margin=0.1), SWAPPED, sure) < 1e-5


@pytest.mark.parametrize("factor", [3.0, 100.0])
def test_only_to_grow_surer_is_no_fault(factor):
    guard = LabelGuard(margin=0.01)
    for seed in range(10):
        source = some_logits(seed, scale=1.0)
        assert probe(guard, factor * source, source) == 1
    assert guard.scale(0) == 1


def test_single_probes_are_averaged():
    # Beside three good ones a bad one counts a quarter; a guard without memory sees it alone.
    good, bad = (FOUR, UNSURE), (SWAPPED, UNSURE)
    verdicts = {}
    for momentum in (0.0, 0.8):
        guard = LabelGuard(margin=0.1, momentum=momentum)
        verdicts[momentum] = [probe(guard, *each) for each in (good, good, good, bad)]
        assert guard.report()["experts"][0]["disagrees"] == pytest.approx(
            0.25 if momentum else doubt_of(0.1) / 2, rel=1e-5
        )
    assert verdicts[0.8] == [1, 1, 1, 1]
    assert verdicts[0.0] == [1, 1, 1, pytest.approx(doubt_of(0.1) / 2, rel=1e-5)]


def test_the_averages_go_back_with_the_expert():
    # Else the memory of the loss, half of it at the next probe, would raise the alarm again.
    guard = LabelGuard(margin=0.05)
    assert probe(guard, LOST, UNSURE) < 1
    half = torch.tensor([0.25, 0.25, 0.375, 0.125])
    assert log(4) - float(torch.special.entr(half).sum()) > 0.05
    assert probe(guard, FOUR, UNSURE) == 1
    assert guard.report()["experts"][0]["alarms"] == 1


def test_who_does_it_again_goes_back_again():
    guard = LabelGuard(margin=0.1, momentum=0.0)
    first, second = probe(guard, LOST, UNSURE), probe(guard, LOST, UNSURE)
    assert first == pytest.approx(second)
    assert guard.scale(0) == pytest.approx(first * second)


# Mirror images.


def mirrored(labels, turned, sure=2.0):
    """Maps with these labels, and what is said of their mirror images, turned back."""
    return ProbePair(as_image(labelled(*labels, sure=sure)), as_image(labelled(*turned, sure=sure)))


STEADY = mirrored((0, 1, 2, 3), (0, 1, 2, 3))
WAVERS = mirrored((0, 1, 2, 3), (0, 1, 3, 2))


@pytest.mark.parametrize(("sure", "is_alarm"), [(1.5, False), (2.1, False), (2.2, True)])
def test_who_grows_surer_must_waver_less(sure, is_alarm):
    # Doubts of 0.289, 0.269 and 0.249 at 2.0, 2.1 and 2.2: 7 and 16 % above a fair one.
    guard = LabelGuard(margin=0.1, waver=0.1)
    expert = mirrored((0, 1, 2, 3), (0, 1, 3, 2), sure=sure)
    excess = (doubt_of(2.0) / doubt_of(sure) - 1) / 0.1
    assert (excess > 1) == is_alarm
    keep = probe(guard, expert, WAVERS)
    assert keep == pytest.approx(1 / (2 * excess) if is_alarm else 1.0, rel=1e-4)
    if is_alarm:
        (event,) = guard.report()["events"]
        assert event["overconfident"] == pytest.approx(excess, rel=1e-4)
        assert event["drift"] == 0


def test_sureness_that_is_earned_is_no_fault():
    sure = mirrored((0, 1, 2, 3), (0, 1, 2, 3), sure=9.0)
    assert probe(LabelGuard(margin=0.1, waver=0.01), sure, WAVERS) == 1


def test_a_source_that_never_wavers_tells_nothing_of_sureness():
    expert = mirrored((0, 1, 2, 3), (0, 1, 3, 2), sure=9.0)
    assert probe(LabelGuard(margin=0.1, waver=0.01), expert, STEADY) == 1


def test_what_is_expected_of_doubt_goes_back_with_the_expert():
    guard = LabelGuard(margin=0.1, waver=0.1)
    expert = mirrored((0, 1, 2, 3), (0, 1, 3, 2), sure=3.0)
    keep = probe(guard, expert, WAVERS)
    watch = guard.state_dict()["experts"][0]["health"]
    between = doubt_of(2.0) + keep * (doubt_of(3.0) - doubt_of(2.0))
    assert watch["own_expected_error"] == pytest.approx(between, rel=1e-4)
    assert watch["flip_inconsistency"] == watch["source_flip_inconsistency"] == 0.5


def test_mirror_images_are_looked_at_a_third_as_often():
    # They cost two passes more: the share of all passes stays the same.
    guard = LabelGuard(margin=0.1, every=2)
    assert batches_of_probes(guard, 22, STEADY, STEADY) == [1, 3, 7, 13, 19]


# How trust comes back.


def alarmed(count):
    """A guard with a number of alarms, each of which kept 0.4."""
    guard = LabelGuard(margin=0.8 * LOST_NATS, momentum=0.0)
    for _ in range(count):
        assert probe(guard, LOST, UNSURE) == pytest.approx(0.4)
    return guard


@pytest.mark.parametrize(("alarms", "growth"), [(1, 2.0), (2, 1.5), (4, 1.25)])
def test_trust_grows_the_slower_the_more_alarms_there_were(alarms, growth):
    guard = alarmed(alarms)
    scale = 0.4**alarms
    assert guard.scale(0) == pytest.approx(scale)
    for _ in range(12):
        assert probe(guard, FOUR, UNSURE) == 1
        scale = min(1.0, scale * growth)
        assert guard.scale(0) == pytest.approx(scale)


def test_trust_never_grows_above_one():
    guard = LabelGuard(margin=0.1)
    for _ in range(5):
        probe(guard, FOUR, UNSURE)
        assert guard.scale(0) == 1
    guard = alarmed(1)
    for expected in (0.8, 1.0, 1.0):
        probe(guard, FOUR, UNSURE)
        assert guard.scale(0) == pytest.approx(expected)


def test_every_expert_is_watched_by_itself():
    guard = LabelGuard(margin=0.1)
    assert batches_of_probes(guard, 6, FOUR, FOUR, index=0) == [1, 3]
    assert probe(guard, SWAPPED, FOUR, index=2) < 1
    assert guard.scale(2) < 1
    assert guard.scale(0) == guard.scale(1) == guard.scale(7) == 1
    # The alarm of the one changes nothing about when the other is looked at.
    assert guard.is_due(2)
    assert guard.is_due(0)  # its seventh batch
    experts = guard.report()["experts"]
    assert {index: watch["alarms"] for index, watch in experts.items()} == {0: 0, 2: 1}
    assert {index: watch["batches"] for index, watch in experts.items()} == {0: 7, 2: 2}
    assert guard.report()["events"][0]["step"] == 7
    # Nor do the labels of the one count for the other.
    assert probe(guard, FOUR, FOUR, index=1) == 1
    assert guard.report()["experts"][1]["disagrees"] == 0


def test_pixels_are_samples_like_images():
    rows, maps = LabelGuard(margin=0.05), LabelGuard(margin=0.05)
    verdicts = []
    for seed in range(6):
        source, expert = some_logits(seed), some_logits(seed) + some_logits(seed + 50, scale=1.5)
        keep = probe(rows, expert, source)
        assert probe(maps, as_image(expert), as_image(source)) == pytest.approx(keep)
        verdicts.append(keep)
    assert min(verdicts) < 1
    assert maps.scale(0) == pytest.approx(rows.scale(0))
    batches = [as_image(labelled(*labels)) for labels in ([0] * 4, [0, 0, 1, 1])]
    assert prepared(batches, momentum=0.0) == pytest.approx(log(2) / sqrt(2))


def test_what_is_forgotten_does_not_count():
    guard = alarmed(2)
    guard.forget(0)
    guard.forget(7)  # of whom nothing was known
    assert guard.scale(0) == 1
    assert guard.report()["experts"] == {}
    assert batches_of_probes(guard, 3, FOUR, FOUR) == [1, 3]


# What is told and kept.


def test_the_report_is_plain():
    guard = LabelGuard(margin=0.1)
    assert json.loads(json.dumps(guard.report())) == {"margin": 0.1, "experts": {}, "events": []}
    guard.is_due(3)
    guard.judge(3, ProbePair(SWAPPED), ProbePair(FOUR))
    guard.is_due(0)
    report = json.loads(json.dumps(guard.report()))
    assert list(report["experts"]) == ["0", "3"]
    keep = pytest.approx(doubt_of(2.0) / 2, rel=1e-5)
    assert report["experts"]["3"] == {
        "batches": 1,
        "probes": 1,
        "alarms": 1,
        "scale": keep,
        "disagrees": keep,
        "doubt": pytest.approx(doubt_of(2.0), rel=1e-5),
    }
    assert report["experts"]["0"]["probes"] == 0
    assert report["events"][0]["keep"] == keep
    assert guard.expert_state(3) == {"alarms": 1, "trust": keep}
    assert guard.expert_state(7) == {}


def test_the_last_alarms_are_remembered_and_all_are_counted():
    guard = LabelGuard(margin=0.1, momentum=0.0)
    for _ in range(1005):
        assert probe(guard, SWAPPED, FOUR) < 1
    report = guard.report()
    assert [event["step"] for event in report["events"]] == list(range(6, 1006))
    assert report["experts"][0]["alarms"] == 1005
    other = LabelGuard()
    other.load_state_dict(guard.state_dict())
    probe(other, SWAPPED, FOUR)
    assert [event["step"] for event in other.report()["events"]] == list(range(7, 1007))


def test_a_guard_goes_on_from_its_state():
    def follow(guard, seeds):
        found = []
        for seed in seeds:
            index = seed % 2
            source, expert = some_logits(seed), some_logits(seed) + some_logits(seed + 50)
            if guard.is_due(index):
                found.append((seed, guard.judge(index, answers(expert), answers(source))))
            found.append(guard.scale(index))
        return found

    one, other = LabelGuard(momentum=0.5), LabelGuard(momentum=0.5)
    one.prepare(lambda logits: logits, [some_logits(seed) for seed in range(4)])
    assert any(keep != 1 for keep in follow(one, range(15)))
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.report() == one.report()
    assert follow(other, range(15, 40)) == follow(one, range(15, 40))
    assert other.report() == one.report()


def test_the_state_is_not_changed_by_what_comes_after():
    guard = LabelGuard(margin=0.1)
    probe(guard, LOST, UNSURE)
    state = guard.state_dict()
    before = LabelGuard()
    before.load_state_dict(state)
    expected = json.dumps(before.report())
    for _ in range(3):
        probe(guard, SWAPPED, FOUR)
    again = LabelGuard()
    again.load_state_dict(state)
    assert json.dumps(again.report()) == expected
