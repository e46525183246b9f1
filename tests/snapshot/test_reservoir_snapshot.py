"""A saved reservoir goes on as if nothing had happened, and recognises what it knew."""

import pytest
import torch
from small_net import make_method
from small_reservoirs import batches, make_pipeline, make_router, show, stream, style

from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import CottaImages, Eata, Rotta, Sar, Tent
from mmseg_reservoir.snapshot import load_reservoir, save_reservoir
from mmseg_reservoir.snapshot.reservoir_snapshot import load_snapshot, take_snapshot

KINDS = ("style", "segment", "oracle")


@pytest.mark.parametrize("care", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_reservoir_goes_on_as_the_saved_one(kind, care, tmp_path):
    pipeline, other = (make_pipeline(kind, care=care) for _ in range(2))
    routes = show(pipeline, ["clear", "dark", "bright", "dark"])
    assert len(set(routes)) == 3
    save_reservoir(pipeline, tmp_path / "saved")
    load_reservoir(other, tmp_path / "saved")
    for look, images in stream(["bright", "clear", "flat", "dark"], seed=5):
        one, two = pipeline.step(images, domain=look), other.step(images, domain=look)
        assert one.route.index == two.route.index
        assert torch.equal(one.logits, two.logits)
    assert [vars(t) for t in pipeline.reservoir.tallies] == [
        vars(t) for t in other.reservoir.tallies
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_it_recognises_its_domains_at_once(kind, tmp_path):
    pipeline, other = make_pipeline(kind), make_pipeline(kind)
    show(pipeline, ["clear", "dark", "bright"])
    known = {look: show(pipeline, [look], seed=3)[-1] for look in ("dark", "bright")}
    save_reservoir(pipeline, tmp_path / "saved")
    load_reservoir(other, tmp_path / "saved")
    for look in ("bright", "dark"):
        outcome = other.infer(batches(look, 1, seed=7)[0], domain=look)
        assert outcome.route.index == known[look]
        assert outcome.k == len(pipeline.reservoir)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (CottaImages, {"augment": {"clip": False}, "views": 2, "confidence": 1.0}),
        (Eata, {"margin": 9.0, "d_margin": 2.0}),
        (Rotta, {"augment": {"clip": False}, "update_every": 4}),
    ],
)
def test_students_banks_and_fisher_come_along(method, options, tmp_path):
    def make():
        return make_pipeline("style", method, supports="images", **options)

    pipeline, other = make(), make()
    source = batches("clear", 3, seed=8)
    pipeline.method.prepare(source)
    pipeline.method.space.load(pipeline.method.source)
    show(pipeline, ["clear", "dark"])
    save_reservoir(pipeline, tmp_path / "saved")
    load_reservoir(other, tmp_path / "saved")  # which has seen no source
    for _, images in stream(["dark", "clear"], seed=4):
        assert torch.equal(pipeline.step(images).logits, other.step(images).logits)
    assert other.method.counts["updates"] < pipeline.method.counts["updates"]  # of a run each


def test_moments_that_all_experts_share_are_still_shared(tmp_path):
    def make():
        options = {"published_momentum": True, "margin": 9.0}
        return make_pipeline("style", Sar, supports="images", **options)

    pipeline, other = make(), make()
    show(pipeline, ["clear", "dark"])
    save_reservoir(pipeline, tmp_path / "saved")
    load_reservoir(other, tmp_path / "saved")
    first, second = (other.reservoir.checkout(i)[1]["optimizer"] for i in (0, 1))
    assert first is second


def test_it_counts_images_visits_and_updates():
    pipeline = make_pipeline("oracle")
    show(pipeline, ["clear", "dark", "clear"], count=3)
    clear, dark = pipeline.reservoir.tallies[1:]
    assert vars(clear) == {"images": 12, "visits": 2, "updates": 6}
    assert vars(dark) == {"images": 6, "visits": 1, "updates": 3}
    assert vars(pipeline.reservoir.tallies[0]) == {"images": 0, "visits": 0, "updates": 0}


def test_what_was_saved_does_not_change_when_the_pipeline_goes_on():
    pipeline, other = make_pipeline("segment", care=True), make_pipeline("segment", care=True)
    show(pipeline, ["clear", "dark"])
    snapshot = take_snapshot(pipeline, {})
    before = [e.parameters.clone() for e in snapshot.experts]
    moments = snapshot.experts[1].method["optimizer"]["exp_avg"].clone()
    show(pipeline, ["dark", "clear"], seed=2)
    load_snapshot(snapshot, other)
    show(other, ["dark"], seed=3)
    assert all(map(torch.equal, before, [e.parameters for e in snapshot.experts]))
    assert torch.equal(moments, snapshot.experts[1].method["optimizer"]["exp_avg"])


def changed_weights():
    pipeline = make_pipeline("style")
    pipeline.method.space.model[0].weight.data += 1e-6
    return pipeline


@pytest.mark.parametrize(
    ("make", "difference"),
    [
        (lambda: make_pipeline("segment"), "router: StyleRouter against SegmentRouter"),
        (
            lambda: make_pipeline("style", care=True),
            "alignment: none against Alignment; guard: none against LabelGuard",
        ),
        (lambda: make_pipeline("style", Eata), "method: Tent against Eata"),
        (
            lambda: make_pipeline("style", optimizer=lambda p: torch.optim.SGD(p, lr=0.1)),
            "optimizer: Adam against SGD",
        ),
        (changed_weights, "source model: "),
        (
            lambda: make_pipeline("style", statistics=0.1),
            r"params.batch_share: 0.0 against 0.1; that of",
        ),
    ],
)
def test_another_model_method_or_router_is_refused_with_the_difference(make, difference, tmp_path):
    save_reservoir(make_pipeline("style"), tmp_path / "saved")
    with pytest.raises(ReservoirError, match=rf"saved: the reservoir is not of .*\({difference}"):
        load_reservoir(make(), tmp_path / "saved")


def test_too_little_room_is_refused():
    pipeline = make_pipeline("oracle")
    show(pipeline, ["clear", "dark"])
    with pytest.raises(ReservoirError, match=r"has 3 experts, .* for 2: set reservoir.k_max=6"):
        load_snapshot(take_snapshot(pipeline, {}), make_pipeline("oracle", k_max=2))


def test_a_pipeline_without_a_reservoir_has_nothing_to_save_and_no_room():
    single = SingleModelPipeline(make_method())
    with pytest.raises(ReservoirError, match="has no reservoir that could be saved"):
        take_snapshot(single, {})
    with pytest.raises(ReservoirError, match="has no room for the experts"):
        load_snapshot(take_snapshot(make_pipeline(), {}), single)


def test_a_router_that_was_not_fitted_cannot_be_saved():
    router = make_router("style")
    router.calibration = None
    with pytest.raises(ReservoirError, match="fit\\(\\) it first"):
        take_snapshot(ReservoirPipeline(make_method(Tent), router, style), {})
