"""Components that nobody knows here are kept whole; what they share cannot be divided."""

from dataclasses import replace

import pytest
import torch
from small_net import make_method
from small_reservoirs import batches, calibration, make_pipeline, show, style

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.routing import StyleRouter
from mmseg_reservoir.routing.clustering import KMeansClustering
from mmseg_reservoir.snapshot.merge import merge
from mmseg_reservoir.snapshot.overview import nearest
from mmseg_reservoir.snapshot.prune import prune
from mmseg_reservoir.snapshot.reservoir_snapshot import put, take


class OwnRouter(StyleRouter):
    """A router that this package does not know."""


def own_pipeline(router=OwnRouter):
    return ReservoirPipeline(make_method(), router(k_max=6).fit(calibration()), style)


def one_step(pipeline, look):
    outcome = pipeline.step(batches(look, 1, seed=9)[0])
    return outcome.route.index, outcome.logits


def test_a_router_of_ones_own_is_saved_and_loaded_but_not_divided():
    pipeline, other = own_pipeline(), own_pipeline()
    show(pipeline, ["clear", "dark"])
    contents = take(pipeline, {})
    put(contents, other)
    ours, theirs = one_step(pipeline, "dark"), one_step(other, "dark")
    assert ours[0] == theirs[0] == 1
    assert torch.equal(ours[1], theirs[1])
    assert nearest(contents, 1)[0] is None
    for change in (lambda: prune(contents, [1]), lambda: merge(contents, take(other, {}))):
        with pytest.raises(ReservoirError, match="state of OwnRouter cannot be divided"):
            change()


def test_a_distance_or_a_clustering_of_ones_own_is_not_divided_either():
    def far(a, b):
        return torch.cdist(a, b)

    def router(k_max):
        return StyleRouter(KMeansClustering(distance=far), k_max=k_max)

    contents = take(own_pipeline(router), {})
    assert contents.identity["router"] == "StyleRouter with a distance of one's own"
    with pytest.raises(ReservoirError, match="cannot be divided"):
        merge(contents, replace(contents, shared={**contents.shared, "weights": []}))


def test_events_of_the_guard_follow_their_expert():
    pipeline = make_pipeline("oracle", care=True)
    show(pipeline, ["clear", "dark", "bright"])
    guard = pipeline.guard
    guard._events.clear()
    for step, expert in enumerate((1, 3, 1, 2)):
        guard._events.append({"step": step, "expert": expert, "keep": 0.5})
    other = make_pipeline("oracle", care=True)
    put(prune(take(pipeline, {}), [2]), other)
    assert [(e["step"], e["expert"]) for e in other.guard.report()["events"]] == [
        (0, 1),
        (1, 2),
        (2, 1),
    ]
    assert other.guard.report()["experts"][2]["batches"] == 6
    images = pipeline.pooling.state_dict()["images"]
    assert other.pooling.state_dict()["images"] == [*images[:2], images[3]]
