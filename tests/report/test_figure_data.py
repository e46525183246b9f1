import math

import pytest
import torch
from run_records import record, rich_record

from mmseg_reservoir.core.expert_health import ProbePair
from mmseg_reservoir.core.guard import LabelGuard
from mmseg_reservoir.report.figure_data import (
    assignment,
    by_stretch,
    class_scores,
    expert_use,
    forgetting,
    guard_events,
    milliseconds,
    stretches,
)


def route(domain, expert, round=1, **more):
    return {"round": round, "domain": domain, "expert": expert, "k": 3, **more}


def test_assignment_counts_images_of_domains_by_expert():
    routes = [route("fog", 0), route("fog", 2), route("night", 2, n_images=4)]
    found = assignment(routes)
    assert found == (["fog", "night"], [0, 2], [[1, 1], [0, 4]])
    assert found.shares == [[0.5, 0.5], [0.0, 1.0]]


def test_visits_are_the_stretches_of_a_stream_even_if_they_interleave():
    routes = [route("fog", 0), route("night", 1), route("fog", 1), route("fog", 0, round=2)]
    assert [(s.label, len(s.routes)) for s in stretches(routes)] == [
        ("fog 1", 2),
        ("night 1", 1),
        ("fog 2", 1),
    ]
    pieces = stretches(routes, most=2)
    assert [(s.label, len(s.routes)) for s in pieces] == [("from 1", 2), ("from 3", 2)]


def test_expert_use_tells_shares_by_visit_and_k():
    routes = [route("fog", 0), route("fog", 2), route("night", 2)]
    use = expert_use(routes)
    assert use.labels == ["fog 1", "night 1"]
    assert use.shares == [[0.5, 0.0], [0.0, 0.0], [0.5, 1.0]]
    assert use.k == [3, 3]


def test_means_by_stretch_leave_out_what_was_not_told():
    routes = [route("fog", 0, e=1.0), route("fog", 0, e=3.0), route("night", 0, e=None)]
    assert by_stretch(routes, "e") == {"fog 1": 2.0}


@pytest.mark.parametrize(
    ("metric", "scores", "expected"),
    [
        ("mIoU", [50.0, 60.0, 55.0], (2, 60.0, 55.0, 5.0)),
        ("error", [50.0, 40.0, 45.0], (2, 40.0, 45.0, 5.0)),
        ("mIoU", [50.0, 60.0, 60.0], (2, 60.0, 60.0, 0.0)),  # the first of the best
        ("mIoU", [None, 60.0, 55.0], (2, 60.0, 55.0, 5.0)),
    ],
)
def test_forgetting_is_the_best_visit_against_the_last(metric, scores, expected):
    visits = [{"domain": "fog", metric: score} for score in scores]
    assert forgetting(visits) == {"fog": expected}


def test_a_domain_whose_last_visit_has_no_score_has_no_loss():
    visits = [{"domain": "fog", "mIoU": 50.0}, {"domain": "fog", "mIoU": math.nan}]
    assert forgetting(visits) == {}


def test_classes_that_nothing_is_known_of_are_left_out():
    scores = class_scores(rich_record(), round=3)
    assert scores == {"road": {"fog": 53.0, "night": 43.0}}
    assert class_scores(record(), round=1) == {}


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
    assert (event.step, event.expert, event.sign) == (1, 0, "drifted")  # half of them, all sure
    assert event.keep == pytest.approx(1 / (2 * event.excess))


def test_milliseconds_by_stage_or_in_all():
    assert milliseconds(rich_record()) == {"style": 4.0, "route": 1.0, "adapt and predict": 15.0}
    assert milliseconds(record()) == {"adapt and predict": pytest.approx(20.0)}
    assert milliseconds(record(routes=[route("fog", 0, seconds=None)])) == {}
