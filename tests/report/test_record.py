import csv
import json
import math
from pathlib import Path

import torch

from mmseg_reservoir.report.record import installed_versions, strict_json, write_results


def test_files_are_replaced_whole(tmp_path):
    for value in (1, 2):
        write_results(tmp_path / "new", {"value": value}, [("a", "b"), (value, None)])
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["results.csv", "results.json"]
    assert json.loads((tmp_path / "new" / "results.json").read_text()) == {"value": 2}
    with (tmp_path / "new" / "results.csv").open() as file:
        assert list(csv.reader(file)) == [["a", "b"], ["2", ""]]


def test_numbers_that_are_not_finite_are_null(tmp_path):
    odd = {
        "a": math.nan,
        "b": [math.inf, (1.5, -math.inf)],
        "c": {"d": torch.tensor(math.nan).item()},
    }
    expected = {"a": None, "b": [None, [1.5, None]], "c": {"d": None}}
    assert json.loads(strict_json(odd)) == expected
    write_results(tmp_path, odd, [("x", "y"), (math.nan, 2.0)])
    assert json.loads((tmp_path / "results.json").read_text()) == expected
    assert (tmp_path / "results.csv").read_text().split() == ["x,y", ",2.0"]
    assert json.loads(strict_json({"path": Path("a")})) == {"path": "a"}  # of configs


def test_versions_of_what_is_there():
    assert installed_versions(["torch", "no-such-package"]) == {"torch": torch.__version__}
