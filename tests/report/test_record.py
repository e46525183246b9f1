import csv
import json

import torch

from mmseg_reservoir.report.record import installed_versions, write_results


def test_files_are_replaced_whole(tmp_path):
    for value in (1, 2):
        write_results(tmp_path / "new", {"value": value}, [("a", "b"), (value, None)])
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["results.csv", "results.json"]
    assert json.loads((tmp_path / "new" / "results.json").read_text()) == {"value": 2}
    with (tmp_path / "new" / "results.csv").open() as file:
        assert list(csv.reader(file)) == [["a", "b"], ["2", ""]]


def test_versions_of_what_is_there():
    assert installed_versions(["torch", "no-such-package"]) == {"torch": torch.__version__}
