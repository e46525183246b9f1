import json
import math
from pathlib import Path
from statistics import stdev

import pytest
from run_records import record, rich_record

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.summary import (
    CONSTANT_NOTE,
    OPTIONS,
    Statistic,
    summarize,
    summary_markdown,
    summary_table,
    sweep,
    to_json,
)

ACDC = Path(__file__).parents[2] / "configs" / "acdc"


def runs(*records: dict) -> dict:
    return {Path(f"run{i}"): results for i, results in enumerate(records)}


def rows(table: str, separator: str = "│") -> list[list[str]]:
    lines = [line.split(separator)[1:-1] for line in table.splitlines() if separator in line]
    return [[cell.strip() for cell in line] for line in lines]


def test_sample_deviation_and_none_of_one_value():
    statistic = Statistic.of([1.0, 2.0, 6.0])
    assert statistic.mean == 3
    assert statistic.deviation == pytest.approx((7.0) ** 0.5)  # (4 + 1 + 9) / (3 - 1)
    assert Statistic.of([1.0, 2.0, 6.0]).text() == "3.00 ± 2.65"
    assert Statistic.of([4.0]).text(1) == "4.0 ± -"


def test_a_visit_without_a_score_has_no_mean():
    statistic = Statistic.of([1.0, math.nan])
    assert math.isnan(statistic.mean)
    assert statistic.text() == "-"
    assert Statistic.of([math.nan]).text() == "-"


def test_seeds_become_one_group_and_learning_rates_two():
    three = [record(seed=s, score=50 + s) for s in (2, 0, 1)]
    groups, warnings = summarize(runs(*three, record(seed=0, lr=1e-5, score=30)))
    assert warnings == []
    tent, slow = groups
    assert tent.seeds == [0, 1, 2]
    assert [s.mean for s in tent.scores["fog"]] == [51, 50]
    assert [s.mean for s in tent.scores["night"]] == [41, 40]
    assert [s.mean for s in tent.scores["mean"]] == [46, 45]
    assert tent.scores["mean"][0].deviation == pytest.approx(stdev([50, 51, 52]))
    assert slow.scores["mean"] == [Statistic(25, None), Statistic(24, None)]
    assert slow.name == "tent (method.optimizer.lr=1e-05)"


def test_unfinished_runs_and_repeated_seeds_are_left_out_and_named():
    groups, warnings = summarize(
        runs(record(seed=0), record(seed=0), record(seed=1, complete=False, score=0))
    )
    assert [g.seeds for g in groups] == [[0]]
    assert groups[0].scores["fog"][0].mean == 50
    assert warnings[0].startswith("run1 repeats seed 0 of run0: left out")
    assert warnings[1].startswith("run2 is not complete (4 visits so far): left out")


def test_differences_within_a_group_are_warned_of():
    _, warnings = summarize(runs(record(seed=0), record(seed=1, versions={"torch": "2.1"})))
    assert warnings == ["tent: different versions in run0 and run1 (torch: 2.0 and 2.1)"]


def test_routing_and_time():
    reservoir = [record(seed=s, reservoir=True) for s in (0, 1)]
    for route in reservoir[1]["routes"]:
        route |= {"expert": 0, "k": 4, "seconds": 0.04}
    (group,), _ = summarize(runs(*reservoir))
    assert group.k == Statistic(3, pytest.approx(2**0.5))
    assert group.purity == Statistic(0.75, pytest.approx(0.5**1.5))  # 1 and 0.5
    assert group.times.median == pytest.approx(0.03)  # of as many images of 20 ms as of 40
    assert (group.times.low, group.times.high) == (0.02, 0.04)
    (plain,), _ = summarize(runs(record()))
    assert plain.purity is None
    untimed = record()
    for route in untimed["routes"]:
        route["seconds"] = None
    (group,), _ = summarize(runs(untimed))
    assert group.times is None
    assert rows(summary_table([group]))[1][-1] == "-"


def test_table():
    groups, _ = summarize(runs(record(seed=0, rounds=5), record(seed=1, rounds=5, score=52)))
    head, cells = rows(summary_table(groups))
    assert head[3:8] == ["visit 1", "visit 4", "visit 7", "visit 10", "last"]
    mean = ["46.00 ± 1.41", "43.00 ± 1.41", "", "", "42.00 ± 1.41"]
    assert cells == ["tent", "0, 1", "5", *mean, "2.0 ± 0.0", "-", "20 (20-20)"]


@pytest.mark.parametrize("markdown", [False, True])
def test_seeds_that_change_nothing_have_no_deviation(markdown):
    same = [record(seed=s, reservoir=True) for s in (0, 1, 2)]
    same[1]["routes"][0]["seconds"] = 0.08  # time is never the same
    groups, _ = summarize(runs(*same, *(record(seed=s, lr=1e-5, score=50 + s) for s in (0, 1))))
    text = summary_table(groups, markdown)
    _, *cells = rows(text, "|" if markdown else "│")
    constant, varied = cells[-2:]
    assert constant[:4] == ["tent (method.optimizer.lr=0.0001) †", "0, 1, 2", "2", "45.00"]
    assert constant[7:] == ["44.00", "2.0", "1.000", "20 (20-20)"]
    assert varied[0] == "tent (method.optimizer.lr=1e-05)"
    assert varied[3] == "45.50 ± 0.71"
    assert text.endswith(f"\n\n{CONSTANT_NOTE}" if markdown else f"┘\n{CONSTANT_NOTE}")
    assert text.count("nothing random in this row") == 1


def test_one_seed_and_seeds_that_differ_anywhere_are_not_called_constant():
    once = record()
    varied = [record(seed=0), record(seed=1)]
    varied[1]["visits"][0]["mIoU"] += 1  # in the mean over the conditions these two
    varied[1]["visits"][1]["mIoU"] -= 1  # hide each other
    for results in ([once], varied):
        (group,), _ = summarize(runs(*results))
        assert not group.constant
        assert "nothing random" not in summary_table([group])


def test_a_broken_metafile_is_a_warning(tmp_path):
    (tmp_path / "metafile.yaml").write_text("Models: [")
    results = runs(record(config_file=str(tmp_path / "tent.py")))
    (group,), (warning,) = summarize(results)
    assert group.row is None
    assert warning.startswith(
        f"tent: no published row: {tmp_path / 'metafile.yaml'} is no metafile"
    )


def test_published_row_stands_below():
    config_file = str(ACDC / "segformer-b5_tent.py")
    groups, _ = summarize(runs(record(rounds=4, config_file=config_file)))
    _, ours, theirs = rows(summary_table(groups))
    assert ours[3:5] == ["45.00 ± -", "42.00 ± -"]
    assert theirs[0] == "published: TENT"
    # (68.0 + 38.0 + 59.9 + 55.9) / 4 at visit 4; the run has no visit 7 to compare
    assert theirs[4:7] == ["55.45", "", ""]


def test_markdown_has_table_and_warnings():
    groups, warnings = summarize(runs(record(seed=0), record(seed=1, complete=False)))
    text = summary_markdown(groups, warnings)
    head, rule, cells = rows(text, "|")
    assert head[0] == "run"
    assert set(rule[0]) <= set(":-")
    assert cells[:4] == ["tent", "0", "2", "45.00 ± -"]
    assert "- Warning: run1 is not complete" in text


def test_json_holds_every_visit_and_the_published_numbers():
    config_file = str(ACDC / "segformer-b5_tent.py")
    groups, warnings = summarize(
        runs(*(record(seed=s, score=50 + 2 * s, config_file=config_file) for s in (0, 1)))
    )
    (group,) = json.loads(json.dumps(to_json(groups, warnings)))["groups"]
    assert group["seeds"] == [0, 1]
    assert group["runs"] == ["run0", "run1"]
    assert group["mIoU"]["night"][1] == {"mean": 40, "deviation": pytest.approx(2**0.5)}
    assert group["published"]["mIoU"]["snow"]["10"] == 52.0
    assert group["purity"] is None


def test_runs_of_which_images_were_skipped_are_marked():
    results = record()
    results["visits"][0]["skipped"] = 2
    groups, warnings = summarize({Path("a/results.json"): results})
    assert warnings == [
        "a/results.json: 2 images could not be used and were skipped: its scores are incomplete"
    ]
    assert "(incomplete)" in summary_table(groups)


def run_with(k_max, score, seed=0):
    results = rich_record(seed=seed, options={"reservoir": {"k_max": k_max}})
    for visit in results["visits"]:
        visit["mIoU"] += score
    return results


def test_scores_by_value_with_deviations_over_seeds():
    found = sweep("k_max", [run_with(8, 0), run_with(2, -4), run_with(8, 2, seed=1)])
    assert found.values == [2, 8]
    assert [point.mean for point in found.mean] == pytest.approx([40.0, 45.0])
    assert [point.mean for point in found.last] == pytest.approx([39.0, 44.0])
    assert found.mean[0].deviation is None
    assert found.mean[1].deviation == pytest.approx(2**0.5)
    assert [point.mean for point in found.k] == [2, 2]
    assert (found.metric, found.title) == ("mIoU", OPTIONS["k_max"][0])


def test_batch_size_is_found_for_both_tasks():
    segmentation, classification = rich_record(), rich_record()
    segmentation["config"]["test_dataloader"] = {"batch_size": 1}
    classification["config"]["stream"] = {"batch_size": 100}
    assert sweep("batch_size", [segmentation, classification]).values == [1, 100]


def test_what_cannot_be_swept_is_told():
    with pytest.raises(ReservoirError, match=r"all runs have k_max = 8: give runs with two"):
        sweep("k_max", [run_with(8, 0), run_with(8, 1, seed=1)])
    with pytest.raises(ReservoirError, match=r"no options\.reservoir\.memory\.capacity"):
        sweep("m", [run_with(8, 0), run_with(2, 0)])
    with pytest.raises(ReservoirError, match="k_max"):
        sweep("kmax", [run_with(8, 0)])
