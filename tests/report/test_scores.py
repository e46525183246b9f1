import math

import pytest
from run_records import record, rich_record

from mmseg_reservoir.report.scores import (
    class_scores,
    forgetting,
    milliseconds_by_stage,
    routing_purity,
    scores_by_domain,
)


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


def test_milliseconds_by_stage_or_in_all():
    assert milliseconds_by_stage(rich_record()) == {
        "style": 4.0,
        "route": 1.0,
        "adapt and predict": 15.0,
    }
    assert milliseconds_by_stage(record()) == {"adapt and predict": pytest.approx(20.0)}
    assert milliseconds_by_stage(record(routes=[{"domain": "fog", "seconds": None}])) == {}


def test_purity_is_the_share_of_each_experts_majority():
    def routes(*pairs):
        return [{"expert": e, "domain": d} for e, d in pairs]

    assert routing_purity(routes((0, "a"), (0, "a"), (1, "b"))) == 1
    assert routing_purity(routes((0, "a"), (0, "b"), (0, "c"), (0, "d"))) == 0.25
    mixed = routes((0, "a"), (0, "a"), (0, "b"), (1, "b"), (1, "b"))
    assert routing_purity(mixed) == pytest.approx(4 / 5)


def test_scores_end_with_the_mean_of_the_domains():
    visits = [
        {"domain": domain, "mIoU": score - visit}
        for visit in range(3)
        for domain, score in (("fog", 49), ("night", 50))
    ]
    assert scores_by_domain({"visits": visits}) == {
        "fog": [49, 48, 47],
        "night": [50, 49, 48],
        "mean": [49.5, 48.5, 47.5],
    }
