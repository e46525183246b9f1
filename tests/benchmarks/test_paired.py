import pytest
from run_records import record

from benchmarks.paired import (
    Cell,
    at,
    cells_of,
    difference_table,
    reservoir_of,
    routing_table,
    score_table,
    second_passes,
)
from mmseg_reservoir.errors import ReservoirError

BASE, ROBUST, SOURCE = Cell("tent", 1.0, "base"), Cell("tent", 1.0, "robust"), "source"
MEAN = list(at("mean").items())


def runs(cell_scores):
    return {
        cell: {seed: record(seed, score) for seed, score in scores.items()}
        for cell, scores in cell_scores.items()
    }


def rows(table):
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_all_rows_and_the_source_once():
    cells = cells_of(["tent", "eata"], [1, 0.1], ["base", "source", "robust"])
    assert cells[0] == Cell(None, None, "source")
    assert len(cells) == 1 + 2 * 2 * 2
    assert [cell.name for cell in cells[:4]] == [
        "source",
        "tent_1_base",
        "tent_1_robust",
        "tent_0.1_base",
    ]


def test_a_variant_is_a_preset_with_or_without_changes():
    assert reservoir_of("robust") == {"preset": "robust"}
    changed = "robust,pooling=None,guard.every=32,guard.least=1e-2,router.type=oracle"
    assert reservoir_of(changed) == {
        "preset": "robust",
        "pooling": None,
        "guard": {"every": 32, "least": 0.01},
        "router": {"type": "oracle"},
    }
    with pytest.raises(ReservoirError, match="'guard' of the variant 'robust,guard' is no option"):
        reservoir_of("robust,guard")


def test_scores_are_those_computed_by_hand():
    # Night is 10 below fog, so the mean is 5 below it; the second visit is 1 below the first.
    table = score_table(runs({BASE: {0: 50, 1: 52}, ROBUST: {0: 53}}), MEAN)
    assert rows(table) == [
        ["tent", "1", "base", "2", "46.00 ± 1.41", "45.00 ± 1.41", "45.50 ± 1.41"],
        ["tent", "1", "robust", "1", "48.00 ± -", "47.00 ± -", "47.50 ± -"],
    ]
    assert "| visit 1 | last visit | mean over visits |".replace(" ", "") in table.replace(" ", "")
    night = score_table(runs({BASE: {0: 50}}), [("night", at("night")["visit 1"])])
    assert rows(night) == [["tent", "1", "base", "1", "40.00 ± -"]]


def test_differences_are_paired_by_seed():
    found = runs({BASE: {1: 52, 0: 50}, ROBUST: {0: 53, 1: 54, 2: 99}})
    # 3 and 2: deviation 0.707, over the root of two seeds.
    assert rows(difference_table(found, "base", MEAN[:1])) == [
        ["tent", "1", "robust", "2", "+2.50 ± 0.50"]
    ]
    assert difference_table(found, "published", MEAN) is None


def test_one_run_of_the_source_stands_beside_all_seeds():
    found = runs({Cell(None, None, SOURCE): {0: 40}, BASE: {0: 50, 1: 52}})
    table = difference_table(found, SOURCE, MEAN[:1])
    assert rows(table) == [["tent", "1", "base", "2", "+11.00 ± 1.00"]]
    both = runs({Cell(None, None, SOURCE): {0: 40, 1: 41}, BASE: {0: 50, 1: 52}})
    assert rows(difference_table(both, SOURCE, MEAN[:1]))[0][-1] == "+10.50 ± 0.50"


@pytest.fixture
def reservoir():
    run = record(reservoir=True, options={"reservoir": {"pipeline": {"one_hot": 0.99}}})
    for i, route in enumerate(run["routes"]):
        route["weight"] = 0.5 if i < 3 else 1.0
    return run


def test_what_a_reservoir_did(reservoir):
    assert second_passes(reservoir) == 0.25
    found = {BASE: {0: record()}, ROBUST: {0: reservoir}}
    assert rows(routing_table(found)) == [
        ["tent", "1", "robust", "2.0 ± -", "1.000 ± -", "0.250 ± -", "-", "-"]
    ]
    watched = [{"probes": 2, "alarms": 1}, {"probes": 4, "alarms": 2}]
    reservoir["guard"] = {"experts": dict(enumerate(watched))}
    assert rows(routing_table(found))[0][-2:] == ["0.500 ± -", "3.0 ± -"]
    assert routing_table({BASE: {0: record()}}) is None


def test_predictions_that_always_or_never_take_a_second_pass(reservoir):
    pipeline = reservoir["options"]["reservoir"]["pipeline"]
    pipeline["ensemble"] = False
    assert second_passes(reservoir) == 0
    pipeline["predict"] = "after"
    assert second_passes(reservoir) == 1
