import builtins

import pytest
from run_records import record, rich_record, write

from mmseg_reservoir.cli import report


def test_a_page_beside_the_first_run(tmp_path, capsys):
    write(tmp_path / "tent", record(method="Tent", rounds=3))
    write(tmp_path / "reservoir", rich_record())
    command = [f"TENT={tmp_path / 'tent'}", str(tmp_path / "reservoir"), "--title=Compared"]
    assert report.main(command) == 0
    path = tmp_path / "tent" / "report.html"
    assert capsys.readouterr().out == f"2 runs: {path}\n"
    page = path.read_text(encoding="utf-8")
    assert "<title>Compared</title>" in page
    assert "Differences to TENT." in page


def test_without_plotly_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    write(tmp_path / "tent", record())
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.endswith("report.page.document"):
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly.offline")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert report.main([str(tmp_path / "tent")]) == 2
    assert "pip install 'mmseg_reservoir[report]'" in capsys.readouterr().err


def test_another_missing_module_is_no_matter_of_plotly(monkeypatch):
    from mmseg_reservoir.report.page import needs_plotly

    with pytest.raises(ModuleNotFoundError), needs_plotly():
        raise ModuleNotFoundError("No module named 'x'", name="x")


def test_no_run_is_one_line(tmp_path, capsys):
    assert report.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: no results.json in or below")
