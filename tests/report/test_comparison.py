import cv2
import pytest

from mmseg_reservoir.report.comparison import comparison_table, last_visit_table, plot_comparison
from mmseg_reservoir.report.tables import scores_by_domain


def results(shift: float, reservoir: bool) -> dict:
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
    return {"TENT": results(-1, False), "TENT + Reservoir": results(1, True)}


def test_scores_end_with_the_mean_of_the_domains(runs):
    assert scores_by_domain(runs["TENT"]) == {
        "fog": [49, 48, 47],
        "night": [50, 49, 48],
        "mean": [49.5, 48.5, 47.5],
    }


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


def test_plot_is_drawn(runs, tmp_path):
    plot_comparison(runs, tmp_path / "new" / "plot.png")
    picture = cv2.imread(str(tmp_path / "new" / "plot.png"))
    assert picture.shape[1] > 800
    assert picture.std() > 5  # something is on it
