"""Streams that exchange experts again and again: nothing counts twice, nothing is lost."""

from dataclasses import replace

import pytest
import torch
from small_reservoirs import make_pipeline, show

from mmseg_reservoir.snapshot.exchange import Base, delta, load_merged, merge_delta
from mmseg_reservoir.snapshot.merge import NoRoomError, merge, same
from mmseg_reservoir.snapshot.reservoir_snapshot import load_snapshot, take_snapshot

KINDS = ("style", "segment", "oracle")


def begun(kind, **options):
    """Return the snapshot that all cameras start from."""
    pipeline = make_pipeline(kind, **options)
    show(pipeline, ["clear", "dark"], seed=7)
    return take_snapshot(pipeline, {})


def camera(start, kind, looks, seed, **options):
    """A camera that went on from there."""
    pipeline = make_pipeline(kind, **options)
    load_snapshot(start, pipeline)
    show(pipeline, looks, seed)
    return pipeline


def images(snapshot):
    return [expert.tally.images for expert in snapshot.experts]


def setting(kind, care=False):
    start = begun(kind, care=care)
    base = Base.of(start, [0] * len(start.experts))
    one = camera(start, kind, ["dark", "bright"], seed=1, care=care)
    other = camera(start, kind, ["dark", "dark", "flat", "bright"], seed=2, care=care)
    return start, base, one, other


@pytest.mark.parametrize("kind", KINDS)
def test_news_count_from_the_base_on(kind):
    start, base, one, _ = setting(kind, care=True)
    learned = delta(take_snapshot(one, {}), base)
    assert sum(images(learned)) == 2 * 6 * 2  # looks, batches, images
    assert sum(images(delta(start, base))) == 0
    evidence = [expert.parts["pooling"]["images"] for expert in learned.experts]
    assert sum(evidence) <= sum(images(learned))
    if kind == "segment":
        frames = [len(expert.parts["router"]["times"]) for expert in learned.experts]
        assert sum(frames) == 12
        assert learned.shared["router"]["shared"]["memory"]["clock"] == 12


@pytest.mark.parametrize("care", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_images_are_counted_once_however_often_cameras_exchange(kind, care):
    start, base, *cameras = setting(kind, care)
    common, revisions, bases = start, base.revisions, [base, base]
    shown = sum(images(start)) + 24 + 48
    for turn in range(3):
        for i, pipeline in enumerate(cameras):
            learned = delta(take_snapshot(pipeline, {}), bases[i])
            merged, revisions = merge_delta(common, revisions, learned, bases[i])
            common = merged.snapshot
            load_merged(common, pipeline, merged.numbering)
            bases[i] = Base.of(take_snapshot(pipeline, {}), revisions)
        assert sum(images(common)) == shown
        for pipeline in cameras:
            show(pipeline, ["dark"], seed=10 + turn)
        shown += 24
    assert len(common.experts) == len(take_snapshot(cameras[1], {}).experts)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_new_changes_nothing(kind):
    start, base, one, _ = setting(kind)
    merged, revisions = merge_delta(
        start, base.revisions, delta(take_snapshot(one, {}), base), base
    )
    common = merged.snapshot
    load_merged(common, one, merged.numbering)
    again = Base.of(take_snapshot(one, {}), revisions)
    twice, after = merge_delta(common, revisions, delta(take_snapshot(one, {}), again), again)
    assert after == revisions
    assert images(twice.snapshot) == images(common)
    for a, b in zip(twice.snapshot.experts, common.experts, strict=True):
        assert same((a.parameters, a.method), (b.parameters, b.method))


@pytest.mark.parametrize("kind", KINDS)
def test_experts_are_averaged_by_the_images_since_the_base_in_any_order(kind):
    start, base, one, other = setting(kind)
    learned = [delta(take_snapshot(pipeline, {}), base) for pipeline in (one, other)]
    results = []
    for first, second in (learned, learned[::-1]):
        merged, revisions = merge_delta(start, base.revisions, first, base)
        merged, _ = merge_delta(merged.snapshot, revisions, second, base)
        results.append(merged.snapshot)
    known = len(start.experts)
    assert len(results[0].experts) == len(results[1].experts)
    weights = [
        e.tally.images for e in (learned[0].experts[known - 1], learned[1].experts[known - 1])
    ]
    parameters = [c.experts[known - 1].parameters for c in learned]
    mean = (weights[0] * parameters[0] + weights[1] * parameters[1]) / sum(weights)
    for snapshot in results:
        torch.testing.assert_close(snapshot.experts[known - 1].parameters, mean)
        assert images(snapshot)[known - 1] == images(start)[known - 1] + sum(weights)


def test_new_experts_of_one_domain_become_one_and_those_of_others_are_handed_on():
    start, base, one, other = setting("oracle")
    merged, revisions = merge_delta(
        start, base.revisions, delta(take_snapshot(one, {}), base), base
    )
    merged, _ = merge_delta(merged.snapshot, revisions, delta(take_snapshot(other, {}), base), base)
    # One opened bright; the other flat, and then bright.
    assert merged.numbering == [0, 1, 2, 4, 3]
    assert images(merged.snapshot)[3:] == [24, 12]
    load_merged(merged.snapshot, other, merged.numbering)
    routes = show(other, ["flat", "bright"], seed=5, count=1)
    assert routes == [4, 3]


def test_a_stream_stays_where_it_is():
    start, base, one, other = setting("segment")
    merged, revisions = merge_delta(
        start, base.revisions, delta(take_snapshot(one, {}), base), base
    )
    before = take_snapshot(other, {}).shared["router"]["stream"]["posterior"]
    merged, _ = merge_delta(merged.snapshot, revisions, delta(take_snapshot(other, {}), base), base)
    load_merged(merged.snapshot, other, merged.numbering)
    after = take_snapshot(other, {})
    posterior = after.shared["router"]["stream"]["posterior"]
    assert len(posterior) == len(after.experts)
    assert torch.equal(posterior[merged.numbering], before)
    # The visit under way is not counted again.
    here = merged.numbering[int(before.argmax())]
    visits = after.experts[here].tally.visits
    show(other, ["bright"], seed=2, count=1)
    assert take_snapshot(other, {}).experts[here].tally.visits == visits


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_base_it_is_the_merge_of_the_command_line(kind):
    one, other = (make_pipeline(kind) for _ in range(2))
    show(one, ["dark"], seed=1)
    show(other, ["dark", "flat"], seed=2)
    a, b = take_snapshot(one, {}), take_snapshot(other, {})
    merged, _ = merge_delta(a, [1] * len(a.experts), delta(b, None), None)
    plain = merge(a, b)
    assert merged.matches == plain.matches
    for x, y in zip(merged.snapshot.experts, plain.snapshot.experts, strict=True):
        assert same(x.parameters, y.parameters)
        assert x.tally == y.tally


def test_no_room_is_an_error_and_loses_nothing():
    _, base, one, other = setting("oracle")
    common, learned = (replace(take_snapshot(p, {}), k_max=4) for p in (one, other))
    with pytest.raises(NoRoomError, match="experts, 4 of the first"):
        merge_delta(common, [1] * len(common.experts), delta(learned, base), base)
