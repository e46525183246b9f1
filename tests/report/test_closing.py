import pytest
from run_records import record

from mmseg_reservoir.report.closing import closing_tables, tell_troubles

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
    assert text.startswith("mIoU by condition and visit\n┌")
    assert "\n2 experts, routing purity 1.000\n" in text
    assert "beside the published row 'Own'\n" in text
    assert "+4.50" in text
    assert "\n20 (20-20) ms per image, median and quartiles\n" in text


def test_sets_beside_the_stream_have_a_table(results):
    assert "beside the stream" not in close(results)[0]
    results["also"] = [{"round": 1, "domain": "clear", "mIoU": 71.25}]
    text, warnings = close(results)
    assert warnings == []
    assert "mIoU of sets beside the stream, after every round\n┌" in text
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
    assert "mIoU by condition and visit" in text
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
    warnings = []
    tell_troubles(results, warnings.append)
    assert [text.split(" and ")[0] for text in warnings] == ["3 of 15 updates broke something"]
