import pytest
from run_records import record, rich_record

from mmseg_reservoir.report.page.score_tables import Score, overview, score_table
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
