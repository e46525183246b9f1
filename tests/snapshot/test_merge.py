"""Two cameras become one: by the router's own test, by images seen, in any order."""

from dataclasses import replace

import pytest
import torch
from small_reservoirs import batches, make_pipeline, show

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Align
from mmseg_reservoir.routing.style_memory import join_memories
from mmseg_reservoir.snapshot.merge import average, find_matches, merge, merge_experts, same
from mmseg_reservoir.snapshot.reservoir_snapshot import load_snapshot, take_snapshot

KINDS = ("style", "segment", "oracle")


def camera(kind, looks, seed, **options):
    """What a camera that met these looks has learned."""
    pipeline = make_pipeline(kind, **options)
    show(pipeline, looks, seed)
    return take_snapshot(pipeline, {})


def cameras(kind, **options):
    """Both met the dark; one of them brightness, too, the other flat light."""
    one = camera(kind, ["clear", "dark", "bright"], seed=1, **options)
    other = camera(kind, ["clear", "flat", "dark", "dark"], seed=2, **options)
    return one, other


def whole(snapshot):
    experts = [{**vars(e), "tally": vars(e.tally)} for e in snapshot.experts]
    return {"shared": snapshot.shared, "experts": experts, "k_max": snapshot.k_max}


@pytest.mark.parametrize("care", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_refused_and_experts_of_a_common_past_count_once(kind, care):
    one, _ = cameras(kind, care=care)
    for copy in (one, replace(one, about={"copied": True})):
        with pytest.raises(ReservoirError, match="hold the same experts, one is a copy of"):
            merge(one, copy)
    merged = merge_experts(one, one)
    assert merged.matches == list(range(len(one.experts)))
    assert same(whole(merged.snapshot), whole(one))


def test_moments_of_two_halves_are_those_of_the_whole():
    """Where the correction does not change what is measured: at the first layer."""

    def met(*seeds):
        pipeline = make_pipeline("oracle", Align, care=True)
        for seed in seeds:
            show(pipeline, ["dark"], seed, count=3)
        return pipeline, take_snapshot(pipeline, {})

    (_, one), (_, other), (pipeline, both) = met(1), met(2), met(1, 2)
    merged = merge(one, other).snapshot.experts[1].parts["alignment"]["moments"]
    whole = both.experts[1].parts["alignment"]["moments"]
    assert merged["images"] == whole["images"] == 12
    first = pipeline.alignment.reference.where("1")
    for name in ("mean", "logvar"):
        torch.testing.assert_close(merged[name][first], whole[name][first])
        assert not torch.allclose(one.experts[1].parts["alignment"]["moments"][name], whole[name])


@pytest.mark.parametrize("kind", KINDS)
def test_experts_of_one_domain_become_one_and_the_others_stand_beside(kind):
    one, other = cameras(kind)
    merged = merge(one, other)
    shift = kind == "oracle"  # whose source expert is nobody's domain
    assert merged.matches == ([0, 1, None, 2] if shift else [0, None, 1])
    images = [e.tally.images for e in merged.snapshot.experts]
    dark = 2 if shift else 1
    assert images[dark] == sum(
        e.tally.images for e in (one.experts[dark], other.experts[3 if shift else 2])
    )
    assert sum(images) == sum(e.tally.images for c in (one, other) for e in c.experts)


@pytest.mark.parametrize("care", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_only_decides_how_experts_are_numbered(kind, care):
    one, other = cameras(kind, care=care)
    forth, back = merge(one, other).snapshot, merge(other, one).snapshot
    assert len(forth.experts) == len(back.experts)

    def by_images(snapshot):
        return sorted(snapshot.experts, key=lambda e: (e.tally.images, e.parameters.sum().item()))

    for a, b in zip(by_images(forth), by_images(back), strict=True):
        assert vars(a.tally) == vars(b.tally)
        torch.testing.assert_close(a.parameters, b.parameters)
        torch.testing.assert_close(a.method["optimizer"], b.method["optimizer"])
        if kind == "segment":
            frames = [e.parts["router"]["styles"].sum(dim=1).sort().values for e in (a, b)]
            torch.testing.assert_close(*frames)
            assert a.parts["router"]["spread"] == pytest.approx(b.parts["router"]["spread"])
        if kind == "style":
            torch.testing.assert_close(a.parts["router"], b.parts["router"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_merged_reservoir_recognises_what_either_camera_knew(kind):
    merged = merge(*cameras(kind)).snapshot
    pipeline = make_pipeline(kind)
    load_snapshot(merged, pipeline)
    seen = {}
    for look in ("dark", "bright", "flat"):
        for images in batches(look, 4, seed=7):
            outcome = pipeline.infer(images, domain=look)
        seen[look] = outcome.route.index
    assert len(set(seen.values())) == 3
    assert 0 not in seen.values()


def test_parameters_and_moments_are_averaged_by_the_images_seen():
    one, other = cameras("oracle")
    a, b = one.experts[2], other.experts[3]
    assert (a.tally.images, b.tally.images) == (12, 24)
    merged = merge(one, other).snapshot.experts[2]
    torch.testing.assert_close(merged.parameters, (a.parameters + 2 * b.parameters) / 3)
    moments = [e.method["optimizer"]["exp_avg"] for e in (a, b, merged)]
    torch.testing.assert_close(moments[2], (moments[0] + 2 * moments[1]) / 3)
    steps = [float(e.method["optimizer"]["step"]) for e in (a, b, merged)]
    assert steps[0] < steps[1] == steps[2]
    assert vars(merged.tally) == {"images": 36, "visits": 2, "updates": 18}


def test_an_expert_that_has_seen_nothing_changes_nothing():
    one, other = cameras("oracle")
    idle = replace(other.experts[3], tally=type(other.experts[3].tally)())
    merged = average(one, one.experts[2], idle)
    assert torch.equal(merged.parameters, one.experts[2].parameters)
    assert merged.tally.images == 12


def test_guard_and_pooling_of_a_merged_expert():
    one, other = cameras("oracle", care=True)
    merged = merge(one, other).snapshot.experts[2]
    heavier = other.experts[3].parts["guard"]["health"]
    assert merged.parts["guard"]["health"]["batches"] == heavier["batches"]
    assert merged.parts["guard"]["health"]["next"] == 0  # looked at as soon as it adapts
    images = [e.parts["pooling"]["images"] for e in (one.experts[2], other.experts[3])]
    assert merged.parts["pooling"]["images"] == sum(images) > max(images)


def test_what_one_camera_holds_apart_stays_apart():
    one, other = cameras("style")
    twice = replace(other, experts=[*other.experts, other.experts[2]])
    assert find_matches(one, twice)[2:] in ([1, None], [None, 1])


def test_centroids_farther_apart_than_tau_are_two_domains():
    one, other = cameras("style")
    tau = one.options("router")["tau"]
    centroid = one.experts[1].parts["router"]["offset"]
    for length, match in ((0.99 * tau, 1), (1.01 * tau, None)):
        away = torch.zeros_like(centroid)
        away[0] = length
        entry = {"offset": centroid + away}
        moved = replace(other.experts[1], parts={**other.experts[1].parts, "router": entry})
        assert find_matches(one, replace(other, experts=[other.experts[0], moved]))[1] == match


def test_more_experts_than_room_are_reported_not_dropped():
    one, other = cameras("oracle")
    with pytest.raises(ReservoirError, match=r"has 5 experts.*experts 2 of the second.*--k-max 5"):
        merge(one, other, k_max=4)
    assert merge(one, other, k_max=5).snapshot.k_max == 5


@pytest.mark.parametrize("kind", ["style", "segment"])
def test_another_calibration_method_or_model_is_refused_with_the_difference(kind):
    one, other = cameras(kind)
    digest = one.identity["calibration"][:12]
    for name in ("calibration", "source model", "method", "params", "router"):
        strange = replace(other, identity={**other.identity, name: "x"})
        with pytest.raises(ReservoirError, match=f"differ: {name}: .* against x"):
            merge(one, strange)
    with pytest.raises(ReservoirError, match=f"calibration: {digest} against x"):
        merge(one, replace(other, identity={**other.identity, "calibration": "x"}))
    options = {"router": {**other.options("router"), "tau": 0.5}}
    with pytest.raises(ReservoirError, match=r"differ: router.tau: .* against 0.5"):
        merge(one, replace(other, identity={**other.identity, "options": options}))


def test_the_memories_of_two_routers_share_the_room():
    styles = torch.arange(12.0).view(12, 1)
    one = {"rows": styles[:6], "seen": 60}
    other = {"rows": styles[4:], "seen": 20}
    assert sorted(join_memories(one, other, 12)["rows"].flatten().tolist()) == list(range(12))
    few = join_memories(one, other, 4)["rows"].flatten().tolist()
    assert len(few) == 4
    assert sum(value < 6 for value in few) == 3  # three quarters of what was seen
    assert join_memories({"rows": None, "seen": 0}, one, 4)["rows"].shape == (4, 1)
