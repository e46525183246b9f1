import pytest
from run_records import record

from mmseg_reservoir.report.closing import closing_tables, run_warnings, update_line

METAFILE = """Models:
  - Name: Own
    Config: tent.py
    Results:
      - {Dataset: ACDC fog, Metrics: {mIoU visit 1: 45.5}}
"""


def close(results: dict) -> tuple[str, list[str]]:
    warnings: list[str] = []
    return closing_tables(results, warnings.append), warnings


@pytest.fixture
def results(tmp_path):
    return record(config_file=str(tmp_path / "tent.py"), reservoir=True)


def test_scores_routing_and_published_row(results, tmp_path):
    (tmp_path / "metafile.yaml").write_text(METAFILE)
    text, warnings = close(results)
    assert warnings == []
    assert text.startswith("mIoU by domain and visit\n┌")
    assert "\n2 experts, routing purity 1.000\n" in text
    assert "compared with the published row 'Own'\n" in text
    assert "+4.50" in text
    assert "\n20 (20-20) ms per image, median and quartiles\n" in text


def test_sets_beside_the_stream_have_a_table(results):
    assert "evaluation sets" not in close(results)[0]
    results["also"] = [{"round": 1, "domain": "clear", "mIoU": 71.25}]
    text, warnings = close(results)
    assert warnings == []
    assert "mIoU of the extra evaluation sets by round\n┌" in text
    assert "71.25" in text


def test_classifiers_have_errors_and_single_models_no_routing(results):
    results["visits"] = [{"domain": "fog", "error": 20.0}]
    results["reservoir"] = False
    text, warnings = close(results)
    assert warnings == []
    assert text.startswith("Error (%) by domain and visit\n┌")
    assert "experts" not in text
    assert "published" not in text


@pytest.mark.parametrize("content", [b"Models: [", b"\xff\xfe\x00", b"[]", b"Models: 1"])
def test_a_damaged_metafile_costs_its_part_only(results, tmp_path, content):
    (tmp_path / "metafile.yaml").write_bytes(content)
    text, (warning,) = close(results)
    assert "mIoU by domain and visit" in text
    assert warning.startswith("cannot show the published row (ReservoirError: ")
    assert f"{tmp_path / 'metafile.yaml'} is no metafile" in warning
    assert warning.endswith("results.json is complete all the same")
    assert "\n" not in warning


def test_nothing_at_all_can_be_shown(tmp_path):
    text, warnings = close({"visits": [], "config_file": str(tmp_path / "a.py")})
    assert text == ""
    assert [warning.split(" (")[0] for warning in warnings] == [
        "cannot show the table of scores",
        "cannot show the routing",
        "cannot show the updates",
        "cannot show the times",
    ]


def test_the_updates_are_told_and_troubles_are_warned_of(results):
    results["updates"] |= {"rollbacks": 3}
    assert "\n12 updates, 3 rolled back" in close(results)[0]
    (warning,) = run_warnings(results)
    assert warning.startswith("3 of 15 updates were skipped as not finite or rolled back")


def warnings_of(**changes):
    return list(run_warnings(record(**changes)))


def counts(updates=12, skipped=0, not_finite=0, rollbacks=0, restarts=0):
    return {
        "updates": updates,
        "skipped": skipped,
        "not_finite": not_finite,
        "rollbacks": rollbacks,
        "restarts": restarts,
    }


def test_a_healthy_run_has_none():
    assert warnings_of() == []
    assert update_line(record()) == "12 updates"
    assert update_line({"updates": counts(updates=1, skipped=1)}) == (
        "1 update, 1 skipped by the method"
    )
    rested = record(trigger={"batches": 40, "rests": 28, "experts": {}})
    assert update_line(rested) == "12 updates, 28 of 40 batches skipped by the trigger"


def test_a_model_that_does_not_adapt_has_no_line_of_updates():
    assert update_line(record(updates=counts(0, skipped=12))) is None
    assert update_line(record(updates={})) is None


def test_updates_that_were_not_made_or_undone_are_told():
    updates = counts(2, 1, 3, 4, 2)
    assert update_line(record(updates=updates)) == (
        "2 updates, 1 skipped by the method, 3 skipped as not finite, 4 rolled back, 2 resets to "
        "the source after three of these in a row"
    )
    (warning,) = warnings_of(updates=updates)
    assert warning.startswith(
        "7 of 9 updates were skipped as not finite or rolled back, and an expert was reset to the "
        "source 2 times"
    )
    assert warning.endswith("is method.optimizer.lr too large?")
    assert update_line(record(updates=counts(0, rollbacks=9))) == "0 updates, 9 rolled back"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"skipped": 2}, "2 images could not be used and were skipped: the scores are incomplete"),
        ({"strange_labels": 3}, "3 images have labels outside the classes, such as labelIds"),
        ({"mIoU": None}, "no labeled pixel in 1 visits (night): they have no score"),
    ],
)
def test_what_is_wrong_with_data_is_told(change, text):
    results = record()
    results["visits"][1] |= change
    (warning,) = run_warnings(results)
    assert warning.startswith(text)


def with_entropies(*values):
    results = record(rounds=2)
    for route, value in zip(results["routes"][-6:], values, strict=True):
        route["marginal_entropy"] = value
    return results


def test_a_collapse_is_told():
    assert list(run_warnings(with_entropies(0, 0, 0, 1, 1, 1))) == []
    (warning,) = run_warnings(with_entropies(0, 0, 0.001, 0.009, 1, 1))
    assert warning.startswith("the predictions have collapsed: 4 of 6 in the last round")


def test_predictions_that_are_not_finite_are_told():
    (warning,) = run_warnings(with_entropies(None, None, 1, 1, 1, 1))
    assert warning == "2 of 6 predictions in the last round are not finite"
