import numpy as np
import pytest
import torch
from run_records import record, rich_record, styles_of

from mmseg_reservoir.core.expert_health import ProbePair
from mmseg_reservoir.core.guard import LabelGuard
from mmseg_reservoir.report.routes import (
    assignment,
    expert_use,
    guard_events,
    mean_by_segment,
    memory_balance,
    segments,
    style_map,
    timeline,
)
from mmseg_reservoir.runs.style_sample import Styles


def route(domain, expert, round=1, **more):
    return {"round": round, "domain": domain, "expert": expert, "k": 3, **more}


def test_assignment_counts_images_of_domains_by_expert():
    routes = [route("fog", 0), route("fog", 2), route("night", 2, n_images=4)]
    found = assignment(routes)
    assert found == (["fog", "night"], [0, 2], [[1, 1], [0, 4]])
    assert found.shares == [[0.5, 0.5], [0.0, 1.0]]


def test_visits_are_the_stretches_of_a_stream_even_if_they_interleave():
    routes = [route("fog", 0), route("night", 1), route("fog", 1), route("fog", 0, round=2)]
    assert [(label, len(part)) for label, part in segments(routes)] == [
        ("fog 1", 2),
        ("night 1", 1),
        ("fog 2", 1),
    ]
    pieces = segments(routes, most=2)
    assert [(label, len(part)) for label, part in pieces] == [("from 1", 2), ("from 3", 2)]


def test_expert_use_tells_shares_by_visit_and_k():
    routes = [route("fog", 0), route("fog", 2), route("night", 2)]
    shares = [[0.5, 0.0], [0.0, 0.0], [0.5, 1.0]]
    assert expert_use(routes) == (["fog 1", "night 1"], shares, [3, 3])


def test_means_mean_by_segment_leave_out_what_was_not_told():
    routes = [route("fog", 0, e=1.0), route("fog", 0, e=3.0), route("night", 0, e=None)]
    assert mean_by_segment(routes, "e") == {"fog 1": 2.0}


def test_guard_events_are_placed_in_the_stream():
    assert guard_events(rich_record()) == [(5, "night 1", 1, "lost classes", 2.0, 0.25)]
    assert guard_events(record()) == []
    batches = rich_record()
    batches["config"]["test_dataloader"] = {"batch_size": 3}
    assert guard_events(batches)[0].label == "fog 3"  # the fifth batch of three
    batches["guard"]["events"][0]["step"] = 99
    assert guard_events(batches)[0].label == "night 3"


def test_events_are_what_a_guard_tells():
    guard = LabelGuard(margin=0.1)
    assert guard.is_due(0)
    both = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    guard.judge(0, ProbePair(both[[0, 0]]), ProbePair(both))  # one of two classes is lost
    (event,) = guard_events(rich_record(guard=guard.report()))
    assert (event.step, event.expert, event.reason) == (1, 0, "drifted")  # half of them, all sure
    assert event.keep == pytest.approx(1 / (2 * event.excess))


def stream(visits=6, length=40):
    return [
        {"domain": "fog" if v % 2 == 0 else "night"} for v in range(visits) for _ in range(length)
    ]


def test_fifo_holds_the_newest_and_reservoir_sampling_all():
    domains, fifo = memory_balance(stream(), "fifo", capacity=20)
    assert domains == ["fog", "night"]
    assert [row[39] for row in fifo] == [1.0, 0.0]
    assert [row[79] for row in fifo] == [0.0, 1.0]  # fog is forgotten
    _, sampled = memory_balance(stream(), "reservoir", capacity=20)
    assert [row[39] for row in sampled] == [1.0, 0.0]
    assert all(0.15 < row[-1] < 0.85 for row in sampled)


def test_shares_sum_to_one_at_every_time():
    _, shares = memory_balance(stream(), "reservoir", capacity=8)
    assert len(shares[0]) == 240
    assert all(abs(sum(column) - 1) < 1e-6 for column in zip(*shares, strict=True))


@pytest.mark.parametrize("projection", ["pca", "tsne"])
def test_domains_lie_apart_and_means_amid_their_styles(projection):
    results = rich_record()
    found = style_map(results, styles_of(results), projection)
    assert found.points.shape == (18, 2)
    assert found.domains == [route["domain"] for route in results["routes"]]
    night = np.array(found.domains) == "night"
    centres = [found.points[night].mean(axis=0), found.points[~night].mean(axis=0)]
    within = np.linalg.norm(found.points[night] - centres[0], axis=1).max()
    assert np.linalg.norm(centres[0] - centres[1]) > within
    assert {expert: [step[0] for step in path] for expert, path in found.paths.items()} == {
        0: [1, 2, 3],
        1: [1, 2, 3],
    }


def test_the_way_of_a_mean_is_that_of_all_styles_so_far():
    results = rich_record()
    styles = styles_of(results)
    found = style_map(results, styles, "pca")
    night = [i for i, route in enumerate(results["routes"]) if route["expert"] == 1]
    # A projection by PCA is linear: the mean of points is the point of the mean.
    assert found.paths[1][-1][1:] == pytest.approx(found.points[night].mean(axis=0), abs=1e-4)
    assert found.paths[1][0][1:] == pytest.approx(found.points[night[:3]].mean(axis=0), abs=1e-4)


def test_a_sample_knows_its_routes_and_dead_channels_do_not_matter():
    results = rich_record()
    vectors = styles_of(results).vectors[[0, 4, 8, 10, 16]].copy()
    vectors[:, 2] = 7
    found = style_map(results, Styles(vectors, np.array([0, 4, 8, 10, 16])), "pca")
    assert found.domains == [results["routes"][i]["domain"] for i in (0, 4, 8, 10, 16)]
    assert np.isfinite(found.points).all()


def test_stretches_of_one_expert():
    assert timeline([0, 0, 1, 1, 1, 0]) == "0-1: 0 | 2-4: 1 | 5: 0"
    assert timeline([]) == ""
