import pytest

from mmseg_reservoir.report.tables import by_domain, routing_purity, visit_table

VISITS = [
    {"domain": "fog", "mIoU": 50.0},
    {"domain": "night", "mIoU": 30.0},
    {"domain": "fog", "mIoU": 52.0},
]


def test_visits_are_grouped_by_domain_and_an_unfinished_round_is_shown():
    assert by_domain(VISITS) == {"fog": [50.0, 52.0], "night": [30.0]}
    lines = [line.split("│")[1:-1] for line in visit_table(VISITS).splitlines() if "│" in line]
    rows = {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}
    assert rows["fog"] == ["50.00", "52.00", "51.00"]
    assert rows["night"] == ["30.00", "", "30.00"]
    assert rows["mean"] == ["40.00", "", "40.00"]


def test_purity_is_the_share_of_each_experts_majority():
    def routes(*pairs):
        return [{"expert": e, "domain": d} for e, d in pairs]

    assert routing_purity(routes((0, "a"), (0, "a"), (1, "b"))) == 1
    assert routing_purity(routes((0, "a"), (0, "b"), (0, "c"), (0, "d"))) == 0.25
    mixed = routes((0, "a"), (0, "a"), (0, "b"), (1, "b"), (1, "b"))
    assert routing_purity(mixed) == pytest.approx(4 / 5)
