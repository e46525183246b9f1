"""Custom parts are saved, pruned and merged as those of this package are, by their own state."""

import math

import pytest
import torch
from small_net import make_method
from small_reservoirs import batches, calibration, make_pipeline, show, style

from mmseg_reservoir.core import Guard, ReservoirPipeline, Route
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing import Router, StyleRouter
from mmseg_reservoir.routing.clustering import KMeansClustering
from mmseg_reservoir.snapshot import load_reservoir, read_folder, save_reservoir, write_folder
from mmseg_reservoir.snapshot import reservoir_snapshot as snapshot_module
from mmseg_reservoir.snapshot.merge import merge
from mmseg_reservoir.snapshot.overview import nearest
from mmseg_reservoir.snapshot.prune import prune
from mmseg_reservoir.snapshot.reservoir_snapshot import load_snapshot, take_snapshot


class BrightnessRouter(Router):
    """Routes by the mean brightness, and counts the batches of every domain."""

    def __init__(self, k_max=6):
        super().__init__(k_max)
        self.means, self.counts = [0.0], [0]

    @property
    def k(self):
        return len(self.means)

    def route(self, style, *, may_open=True, domain=None):
        mean = float(style[:3].mean())
        index = min(range(self.k), key=lambda i: abs(self.means[i] - mean))
        is_new = may_open and self.k < self.k_max and abs(self.means[index] - mean) > 1
        if is_new:
            self.means, self.counts, index = [*self.means, mean], [*self.counts, 0], self.k
        self.counts[index] += 1
        return Route(index, torch.eye(self.k)[index], is_new)

    def state_dict(self):
        rows = zip(self.means, self.counts, strict=True)
        return {"shared": {}, "experts": [{"mean": mean, "count": n} for mean, n in rows]}

    def load_state_dict(self, state):
        self.means = [entry["mean"] for entry in state["experts"]]
        self.counts = [entry["count"] for entry in state["experts"]]

    @classmethod
    def distance(cls, options, shared, one, other):
        return abs(one["mean"] - other["mean"])

    @classmethod
    def merge_expert(cls, options, one, other, weight):
        mean = (1 - weight) * one["mean"] + weight * other["mean"]
        return {"mean": mean, "count": one["count"] + other["count"]}


class CountingGuard(Guard):
    """Counts the updates of every expert, and trusts all of them."""

    def __init__(self):
        self.updates = {}

    def prepare(self, predict, source):
        pass

    def is_due(self, index):
        self.updates[index] = self.updates.get(index, 0) + 1
        return False

    def judge(self, index, expert, source):
        raise AssertionError("no batch is due")

    def scale(self, index):
        return 1.0

    def forget(self, index):
        self.updates.pop(index, None)

    def report(self):
        return {}

    def state_dict(self):
        last = max(self.updates, default=-1)
        return {"shared": {}, "experts": [self.updates.get(i) for i in range(last + 1)]}

    def load_state_dict(self, state):
        self.updates = {i: n for i, n in enumerate(state["experts"]) if n is not None}

    @classmethod
    def merge_expert(cls, options, one, other, weight):
        return one + other


class UndividedRouter(BrightnessRouter):
    """Returns its state in one piece."""

    def state_dict(self):
        return {"means": list(self.means)}

    def load_state_dict(self, state):
        self.means = list(state["means"])
        self.counts = [0 for _ in self.means]


def custom_pipeline(router=BrightnessRouter):
    router = router(k_max=6).fit(calibration())
    return ReservoirPipeline(make_method(), router, style, guard=CountingGuard())


def custom_camera(looks, seed):
    pipeline = custom_pipeline()
    show(pipeline, looks, seed)
    return pipeline


def one_step(pipeline, look):
    outcome = pipeline.step(batches(look, 1, seed=9)[0])
    return outcome.route.index, outcome.logits


def test_a_custom_router_and_guard_are_saved_and_loaded(tmp_path):
    pipeline, other = custom_camera(["clear", "dark"], seed=0), custom_pipeline()
    load_reservoir(other, save_reservoir(pipeline, tmp_path / "saved"))
    ours, theirs = one_step(pipeline, "dark"), one_step(other, "dark")
    assert ours[0] == theirs[0] == 1
    assert torch.equal(ours[1], theirs[1])


def test_they_are_pruned():
    snapshot = take_snapshot(custom_camera(["clear", "dark", "bright"], seed=0), {})
    means = [expert.parts["router"]["mean"] for expert in snapshot.experts]
    other = custom_pipeline()
    load_snapshot(prune(snapshot, [1]), other)
    assert other.router.means == [means[0], means[2]]
    assert other.guard.updates == {0: 6, 1: 6}
    assert one_step(other, "bright")[0] == 1


def test_they_are_merged_by_their_own_distance(tmp_path):
    one = take_snapshot(custom_camera(["clear", "dark", "bright"], seed=1), {})
    other = take_snapshot(custom_camera(["clear", "bright", "bright"], seed=2), {})
    folders = [write_folder(each, tmp_path / name) for each, name in ((one, "a"), (other, "b"))]
    merged = merge(*map(read_folder, folders))
    assert merged.matches == [0, 2]
    pipeline = custom_pipeline()
    load_snapshot(merged.snapshot, pipeline)
    assert pipeline.router.counts == [12, 6, 18]
    assert pipeline.guard.updates == {0: 12, 1: 6, 2: 18}
    assert one_step(pipeline, "bright")[0] == 2
    assert nearest(merged.snapshot, 1)[0] == 0


def test_a_class_that_is_not_loaded_is_named(monkeypatch, tmp_path):
    snapshot = take_snapshot(custom_camera(["clear", "dark"], seed=0), {})
    monkeypatch.setattr(snapshot_module, "part_class", lambda name: None)
    write_folder(snapshot, tmp_path / "saved")
    with pytest.raises(ReservoirError, match="router BrightnessRouter of the reservoir is not"):
        prune(snapshot, [1])


def test_a_state_in_one_piece_is_loaded_but_not_divided():
    pipeline, other = (custom_pipeline(UndividedRouter) for _ in range(2))
    show(pipeline, ["clear", "dark"])
    snapshot = take_snapshot(pipeline, {})
    load_snapshot(snapshot, other)
    assert other.router.means == pipeline.router.means
    assert nearest(snapshot, 1) == (None, math.inf)
    change = take_snapshot(custom_pipeline(UndividedRouter), {})
    for combine in (lambda: prune(snapshot, [1]), lambda: merge(snapshot, change)):
        with pytest.raises(ReservoirError, match="router UndividedRouter can be neither merged"):
            combine()


def test_a_subclass_is_merged_as_its_base():
    class OwnRouter(StyleRouter):
        pass

    def camera(seed):
        router = OwnRouter(KMeansClustering(), k_max=6).fit(calibration())
        pipeline = ReservoirPipeline(make_method(), router, style)
        show(pipeline, ["clear", "dark"], seed)
        return take_snapshot(pipeline, {})

    assert merge(camera(1), camera(2)).matches == [0, 1]


def test_a_distance_that_is_not_registered_is_named():
    def far(a, b):
        return torch.cdist(a, b)

    def camera(seed):
        router = StyleRouter(KMeansClustering(distance=far), k_max=6).fit(calibration())
        pipeline = ReservoirPipeline(make_method(), router, style)
        show(pipeline, ["clear", "dark"], seed)
        return take_snapshot(pipeline, {})

    with pytest.raises(ReservoirError, match="unknown distance 'far'; valid: cosine"):
        merge(camera(1), camera(2))


def test_events_of_the_guard_follow_their_expert():
    pipeline = make_pipeline("oracle", care=True)
    show(pipeline, ["clear", "dark", "bright"])
    guard = pipeline.guard
    guard._events.clear()
    for step, expert in enumerate((1, 3, 1, 2)):
        guard._events.append({"step": step, "expert": expert, "keep": 0.5})
    other = make_pipeline("oracle", care=True)
    load_snapshot(prune(take_snapshot(pipeline, {}), [2]), other)
    assert [(e["step"], e["expert"]) for e in other.guard.report()["events"]] == [
        (0, 1),
        (1, 2),
        (2, 1),
    ]
    assert other.guard.report()["experts"][2]["batches"] == 6
    images = pipeline.pooling.images
    assert other.pooling.images == [*images[:2], images[3]]
