import pytest

from benchmarks.routing_scores import Step, routing_scores


def steps(routes):
    """``{visit: "condition expert"}`` by hand."""
    return [Step(c, v, e, k) for v, visit in enumerate(routes) for c, e, k in visit]


def test_metrics_of_hand_made_routes():
    perfect = steps([[("a", 1, 2), ("b", 2, 3)], [("a", 1, 3), ("b", 2, 3)]])
    found = routing_scores(perfect)
    assert (found["k"], found["purity"], found["nmi"]) == (3, 1, 1)
    assert (found["recall"], found["recall_strict"], found["leak"]) == (1, 1, {"a": 0, "b": 0})
    assert (found["delay_first"], found["delay_return"]) == (0, 0)

    late = [("a", 0, 1), ("a", 0, 1), ("a", 1, 2)]
    again = [("a", 1, 2), ("a", 1, 2), ("a", 0, 2)]
    found = routing_scores(steps([late, again]))
    assert found["k_by_round"] == [2, 2]
    assert found["delay_first"] + found["delay_return"] in (0, 2)
    assert found["recall"] == pytest.approx(1 / 3) or found["recall"] == pytest.approx(2 / 3)
    assert found["recall_strict"] == pytest.approx(1 / 3)

    one = routing_scores(steps([[("a", 0, 1), ("b", 0, 1), ("b", 0, 1)]]))
    assert one["purity"] == pytest.approx(2 / 3)
    assert one["nmi"] == 0
    assert one["leak"] == {"a": 1, "b": 0}
    assert one["recall"] is None
