import math

import pytest
from run_records import record, rich_record

from mmseg_reservoir.report.page.score_tables import Score, conclude, overview, score_table
from mmseg_reservoir.report.shown_run import ShownRun

METAFILE = """Models:
  - Name: Published
    Config: tent.py
    Results:
      - {Dataset: ACDC fog, Metrics: {mIoU visit 1: 45.5, mIoU visit 3: 46.0}}
      - {Dataset: ACDC night, Metrics: {mIoU visit 1: 41.0, mIoU visit 3: 40.0}}
"""


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "metafile.yaml").write_text(METAFILE)
    base = record(method="Tent", rounds=2, score=47.0)
    return [
        ShownRun("TENT", base),
        ShownRun("R", rich_record(config_file=str(tmp_path / "tent.py"))),
    ]


def test_scores_have_their_distance_to_the_base_and_to_the_published_row(runs):
    table = score_table(runs[1], runs, pytest.fail)
    assert (table.run, table.base, table.published, table.visits) == ("R", "TENT", "Published", 3)
    assert list(table.rows) == ["fog", "night", "mean"]
    assert table.rows["fog"] == [
        Score(50.0, 3.0, 4.5),
        Score(49.0, 3.0, None),
        Score(48.0, None, 2.0),  # the base has two visits
        Score(49.0, 3.0, None),  # of those that both have
    ]
    assert table.rows["mean"][0] == Score(45.0, 3.0, 45.0 - 43.25)


def test_without_base_and_row_there_are_scores_alone(runs):
    table = score_table(runs[0], runs, pytest.fail)
    assert (table.base, table.published) == (None, None)
    assert table.rows["night"][1] == Score(36.0, None, None)


def test_a_damaged_metafile_is_told_and_left_out(runs, tmp_path):
    (tmp_path / "metafile.yaml").write_text("Models: [")
    warnings = []
    assert score_table(runs[1], runs, warnings.append).published is None
    assert len(warnings) == 1
    assert warnings[0].startswith("R: no published row: ")


def test_visits_without_a_score_are_empty(runs):
    runs[0].results["visits"][0]["mIoU"] = None
    table = score_table(runs[0], runs, pytest.fail)
    assert table.rows["fog"][0] == Score(None)
    assert table.rows["mean"][0].value == 37.0  # of what is known, as in the closing tables


def test_the_overview_has_a_row_per_run(runs):
    tables = [score_table(run, runs, pytest.fail) for run in runs]
    first, second = overview(runs, tables)
    assert (first["run"], first["purity"], first["k"]) == ("TENT", None, 2)
    assert (second["purity"], second["lost"], second["milliseconds"]) == (1.0, 2.0, 20.0)
    assert second["last"].value == 43.0


def run(name, *scores, method="Tent", reservoir=False, metric="mIoU", domains=("fog", "night")):
    """A run with these means by visit; the first domain is 1 above the mean, the second 1 below."""
    visits = [
        {"round": i, "domain": domain, metric: None if score is None else score + 1 - 2 * j}
        for i, score in enumerate(scores, start=1)
        for j, domain in enumerate(domains)
    ]
    return ShownRun(name, record(visits=visits, method=method, reservoir=reservoir))


SOURCE = run("Source", 34.6, 34.6, method="Source")

TENT = run("TENT", 34.0, 32.2)

ROBUST = run("TENT + robust", 40.4, 42.0, reservoir=True)

ALIGN = run("align", 41.0, 41.6, method="Align", reservoir=True)


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (
            [SOURCE, TENT, ROBUST],
            "With the reservoir (TENT + robust) the mean mIoU rises from 34.6 (Source) to 41.2; "
            "TENT alone falls to 33.1.",
        ),
        (
            [ALIGN, SOURCE, TENT],  # no other run of its method: the worst one
            "With the reservoir (align) the mean mIoU rises from 34.6 (Source) to 41.3; "
            "TENT falls to 33.1.",
        ),
        (
            [SOURCE, run("TENT", 36.0), run("R", 35.0, reservoir=True)],
            "With TENT the mean mIoU rises from 34.6 (Source) to 36.0; R rises to 35.0.",
        ),
        (
            [SOURCE, TENT],
            "No run beats Source: with TENT the mean mIoU falls from 34.6 (Source) to 33.1.",
        ),
        ([SOURCE, run("T", 34.62)], "With T the mean mIoU stays at 34.6, that of Source."),
        (
            [TENT, ROBUST],
            "With the reservoir (TENT + robust) the mean mIoU rises from 33.1 (TENT) to 41.2.",
        ),
        (
            [ALIGN, ROBUST],
            "align has the highest mean mIoU, 41.3; TENT + robust has the lowest, 41.2.",
        ),
        ([TENT, run("again", 33.1, 33.1)], "All 2 runs have the same mean mIoU, 33.1."),
        ([TENT], "The mean mIoU of TENT falls from 34.0 at the first visit to 32.2 at the last."),
        ([run("short", 34.0)], "The mean mIoU of short is 34.0."),
        (
            [run("flat", 34.0, 34.04)],
            "The mean mIoU of flat is 34.0 at the first visit and at the last.",
        ),
    ],
)
def test_the_sentence_is_right_for_any_runs(runs, sentence):
    assert conclude(runs).sentence == sentence


def test_of_errors_the_lowest_is_the_best():
    source = run("Source", 35.0, 35.0, method=None, metric="error")
    tent = run("TENT", 50.0, 70.0, metric="error")
    plug_in = run("TENT + robust", 21.0, 20.0, metric="error", reservoir=True)
    sentence, basis = conclude([source, tent, plug_in])
    assert sentence == (
        "With the reservoir (TENT + robust) the mean error falls from 35.0 (Source) to 20.5; "
        "TENT alone rises to 60.0."
    )
    assert basis == "error in percent, lower is better. Mean over fog and night, visits 1 to 2."
    assert conclude([tent, run("EATA", 20.0, 20.0, method="Eata", metric="error")]).sentence == (
        "EATA has the lowest mean error, 20.0; TENT has the highest, 60.0."
    )


def test_without_labels_there_is_no_number():
    blind = run("blind", None)
    assert conclude([blind]) == (
        "blind has no scores: there were no labels. 12 images, 2 experts.",
        "",
    )
    assert conclude([blind, blind]) == ("None of the 2 runs has scores: there were no labels.", "")
    for other in (TENT, run("elsewhere", 30.0, domains=("rain", "snow"))):
        assert "not compared" in conclude([blind, other]).sentence


def test_runs_are_compared_by_what_all_of_them_have():
    short = run("TENT + robust", 40.0, reservoir=True)  # is at its second visit
    short.results["visits"].append({"round": 2, "domain": "fog", "mIoU": 99.0})
    partly = run("Source", 30.0, 60.0, 60.0, method="Source", domains=("fog", "night", "rain"))
    partly.results["visits"][1]["mIoU"] = None  # night
    sentence, basis = conclude([partly, short])
    assert sentence.endswith("the mean mIoU rises from 31.0 (Source) to 41.0.")  # fog of visit 1
    assert basis.endswith("Mean over fog, visit 1, which all runs have scored.")


def test_the_numbers_are_those_of_the_overview():
    runs = [SOURCE, TENT, ROBUST]
    means = [score_table(run, runs, pytest.fail).rows["mean"][-1].value for run in runs]
    sentence = conclude(runs).sentence
    assert all(f"{mean:.1f}" in sentence for mean in means)
    assert not any(map(math.isnan, means))
