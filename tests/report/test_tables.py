import math

import pytest

from mmseg_reservoir.report.tables import by_domain, make_table, routing_purity, visit_table

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
    assert note == "- no labelled pixel"


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


def test_purity_is_the_share_of_each_experts_majority():
    def routes(*pairs):
        return [{"expert": e, "domain": d} for e, d in pairs]

    assert routing_purity(routes((0, "a"), (0, "a"), (1, "b"))) == 1
    assert routing_purity(routes((0, "a"), (0, "b"), (0, "c"), (0, "d"))) == 0.25
    mixed = routes((0, "a"), (0, "a"), (0, "b"), (1, "b"), (1, "b"))
    assert routing_purity(mixed) == pytest.approx(4 / 5)
