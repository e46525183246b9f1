import math

import pytest

from mmseg_reservoir.report.scores import by_domain
from mmseg_reservoir.report.tables import (
    comparison_table,
    error_table,
    has_collapsed,
    last_visit_table,
    make_table,
    visit_table,
)

VISITS = [
    {"domain": "fog", "mIoU": 50.0},
    {"domain": "night", "mIoU": 30.0},
    {"domain": "fog", "mIoU": 52.0},
]


def test_text_is_left_numbers_are_right_and_none_is_a_line():
    table = make_table(["run", "of", 1], [["a", "b", 2.5], None, ["long", "c", 10]], text_columns=2)
    assert table.splitlines() == [
        "┌──────┬────┬─────┐",
        "│ run  │ of │   1 │",
        "├──────┼────┼─────┤",
        "│ a    │ b  │ 2.5 │",
        "├──────┼────┼─────┤",
        "│ long │ c  │  10 │",
        "└──────┴────┴─────┘",
    ]


def test_markdown_has_no_lines_between_rows():
    rows = [["a", 1], None, ["b", 2], None]
    head, rule, *cells = make_table(["x", "y"], rows, markdown=True).splitlines()
    assert [c.strip() for c in head.split("|")] == ["", "x", "y", ""]
    assert set(rule) <= set("|:- ")
    assert [[c.strip() for c in line.split("|")[1:-1]] for line in cells] == [
        ["a", "1"],
        ["b", "2"],
    ]


def test_a_visit_without_a_score_is_shown_as_such():
    visits = [{"domain": "fog", "mIoU": None}, {"domain": "night", "mIoU": 30.0}]
    assert math.isnan(by_domain(visits)["fog"][0])
    *_, fog, night, mean, _, note = visit_table(visits).splitlines()
    assert [cell.strip() for cell in fog.split("│")[1:-1]] == ["fog", "-", "-"]
    assert [cell.strip() for cell in night.split("│")[1:-1]] == ["night", "30.00", "30.00"]
    assert [cell.strip() for cell in mean.split("│")[1:-1]] == ["mean", "30.00", "30.00"]
    assert note == "- no labeled pixel"


def test_what_is_incomplete_is_marked():
    visits = [dict(visit) for visit in VISITS]
    assert "*" not in visit_table(visits)
    visits[1]["skipped"] = 2
    lines = [line.split("│")[1:-1] for line in visit_table(visits).splitlines() if "│" in line]
    rows = {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}
    assert rows["fog"] == ["50.00", "52.00", "51.00"]
    assert rows["night"] == ["30.00*", "", "30.00*"]
    assert rows["mean"] == ["40.00*", "", "40.00*"]
    assert visit_table(visits).endswith("* incomplete: images were skipped")


def test_visits_are_grouped_by_domain_and_an_unfinished_round_is_shown():
    assert by_domain(VISITS) == {"fog": [50.0, 52.0], "night": [30.0]}
    lines = [line.split("│")[1:-1] for line in visit_table(VISITS).splitlines() if "│" in line]
    rows = {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}
    assert rows["fog"] == ["50.00", "52.00", "51.00"]
    assert rows["night"] == ["30.00", "", "30.00"]
    assert rows["mean"] == ["40.00", "", "40.00"]


def comparison_results(shift: float, reservoir: bool) -> dict:
    visits = [
        {"round": r, "domain": d, "mIoU": 50 + shift * r + i}
        for r in (1, 2, 3)
        for i, d in enumerate(("fog", "night"))
    ]
    routes = [
        {"round": v["round"], "domain": v["domain"], "expert": i, "k": 2, "seconds": 0.02}
        for v in visits
        for i in [int(reservoir and v["domain"] == "night")] * 4
    ]
    return {
        "visits": visits,
        "routes": routes,
        "reservoir": reservoir,
        "updates": {"updates": len(routes)},
    }


@pytest.fixture
def runs():
    return {"TENT": comparison_results(-1, False), "TENT + Reservoir": comparison_results(1, True)}


def test_runs_stand_below_each_other_for_every_domain(runs):
    lines = [line for line in comparison_table(runs).splitlines() if "TENT" in line]
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in lines]
    assert cells[0] == ["fog", "TENT", "49.00", "48.00", "47.00", "48.00"]
    assert cells[1] == ["", "TENT + Reservoir", "51.00", "52.00", "53.00", "52.00"]
    assert [c[0] for c in cells] == ["fog", "", "night", "", "mean", ""]


def test_last_visit_has_scores_routing_and_cost(runs):
    header, *lines = [line for line in last_visit_table(runs).splitlines() if "│" in line]
    assert "mIoU at visit 3" in header
    assert "ms per image" in header
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in lines]
    assert cells[0] == ["TENT", "47.00", "48.00", "47.50", "2", "-", "24", "20 (20-20)"]
    reservoir = ["53.00", "54.00", "53.50", "2", "1.000", "24", "20 (20-20)"]
    assert cells[1] == ["TENT + Reservoir", *reservoir]


def error_results(errors, reservoir=False):
    visits = [
        {"round": r, "domain": d, "error": e + shift}
        for r, e in enumerate(errors, start=1)
        for d, shift in (("fog", -1), ("snow", 1))
    ]
    routes = [
        {"domain": v["domain"], "expert": int(reservoir and v["domain"] == "snow"), "k": 2}
        for v in visits
    ]
    return {"visits": visits, "routes": routes, "reservoir": reservoir, "cpu_seconds": 12.3}


RUNS = {
    "TENT": error_results([20, 30, 40, 60, 80]),
    "TENT + ReservoirTTA": error_results([20, 19, 18, 18, 18], reservoir=True),
}


def test_a_row_per_run():
    lines = [line for line in error_table(RUNS).splitlines() if "TENT" in line]
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in lines]
    assert cells[0] == ["TENT", "20.0", "80.0", "46.0", "collapses", "2", "-", "12"]
    assert cells[1] == ["TENT + ReservoirTTA", "20.0", "18.0", "18.6", "", "2", "1.00", "12"]


def test_collapse_is_far_above_the_best_visit():
    assert has_collapsed([20, 18, 30])
    assert not has_collapsed([20, 18, 22])
    assert not has_collapsed([2, 1, 3])  # thrice, but two points
    assert not has_collapsed([80, 60, 20])
