from pathlib import Path

import pytest
from run_records import record

from mmseg_reservoir.report.rate_choice import fair_record, fair_table, information

GRID = [1e-6, 1e-5, 1e-4]


def with_information(lr: float, diverse: float, unsure: float, score: float = 50.0) -> dict:
    results = record(lr=lr, score=score)
    for route in results["routes"]:
        route |= {"marginal_entropy": diverse, "entropy": unsure}
    return results


@pytest.fixture
def runs():
    return {
        1e-6: with_information(1e-6, 1.5, 0.5, score=60),  # best mIoU
        1e-5: with_information(1e-5, 1.5, 0.2, score=50),  # most information
        1e-4: with_information(1e-4, 0.1, 0.0, score=40),  # sure, but of one class
    }


def folders():
    return {lr: Path(f"w/lr_{lr:g}") for lr in GRID}


def test_information_is_the_mean_of_diversity_minus_entropy():
    results = record()
    for i, route in enumerate(results["routes"]):
        route |= {"marginal_entropy": 2.0 + i, "entropy": 0.5}
    assert information(results) == pytest.approx(1.5 + (len(results["routes"]) - 1) / 2)
    results["routes"][3]["entropy"] = None
    assert information(results) is None
    del results["routes"][3]["entropy"]
    assert information(results) is None


def test_chosen_by_information_and_never_by_miou(runs):
    result = fair_record(runs, folders())
    assert result["chosen"] == 1e-5
    assert result["labels_used_for_the_choice"] is False
    assert result["grid"] == GRID
    assert [row["information"] for row in result["runs"]] == pytest.approx([1.0, 1.3, 0.1])
    assert result["runs"][0]["mIoU"]["mean"] == [55, 54]
    assert result["runs"][2]["folder"] == str(Path("w/lr_0.0001"))
    for results in runs.values():
        for visit in results["visits"]:
            visit["mIoU"] = 100 - visit["mIoU"]
    assert fair_record(runs, folders())["chosen"] == 1e-5


def test_table_marks_the_choice_and_says_how_it_was_made(runs):
    text = fair_table(fair_record(runs, folders()))
    rows = [[c.strip() for c in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert rows[0] == ["learning rate", "1", "2", "mean", "information", "K"]
    assert rows[1] == ["1e-06", "55.00", "54.00", "54.50", "1.0000", "2"]
    assert [row[0] for row in rows[1:]] == ["1e-06", "1e-05 *", "0.0001"]
    assert "mIoU was not used" in text
    assert "end of the grid" not in text
    del runs[1e-6]
    assert "It is at the end of the grid" in fair_table(fair_record(runs, folders()))


def test_a_broken_run_is_reported_but_not_chosen(runs):
    runs[1e-5]["routes"][0]["entropy"] = None
    result = fair_record(runs, folders())
    assert result["chosen"] == 1e-6
    assert len(result["runs"]) == 3
    for results in runs.values():
        results["routes"][0]["entropy"] = None
    result = fair_record(runs, folders())
    assert result["chosen"] is None
    assert "No learning rate is chosen" in fair_table(result)
