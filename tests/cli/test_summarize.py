import json

import pytest
from run_records import record, write
from stream_run import run, seeded_reservoir

from mmseg_reservoir.cli import summarize


def test_prints_and_writes_what_it_finds(tmp_path, capsys):
    for seed in (0, 1, 2):
        write(tmp_path / f"tent_{seed}", record(seed=seed, score=50 + seed))
    markdown, numbers = tmp_path / "out" / "summary.md", tmp_path / "out" / "summary.json"
    command = [str(tmp_path), f"--markdown={markdown}", f"--json={numbers}"]
    assert summarize.main(command) == 0
    printed = capsys.readouterr()
    assert "46.00 ± 1.00" in printed.out
    assert printed.err == ""
    assert "46.00 ± 1.00" in markdown.read_text(encoding="utf-8")
    assert json.loads(numbers.read_text())["groups"][0]["seeds"] == [0, 1, 2]


def test_seeds_that_change_nothing_and_visits_without_a_score(tmp_path, capsys):
    for seed in (0, 1):
        write(tmp_path / f"tent_{seed}", record(seed=seed))
        empty = record(seed=seed, lr=1e-5)
        empty["visits"][0]["mIoU"] = None
        write(tmp_path / f"empty_{seed}", empty)
    markdown, numbers = tmp_path / "summary.md", tmp_path / "summary.json"
    assert summarize.main([str(tmp_path), f"--markdown={markdown}", f"--json={numbers}"]) == 0
    for text in (capsys.readouterr().out, markdown.read_text(encoding="utf-8")):
        assert text.count("nothing random in this row") == 1
        assert "45.00 ± 0.00" not in text
        assert "nan" not in text
    groups = json.loads(numbers.read_text(), parse_constant=pytest.fail)["groups"]
    assert groups[0]["mIoU"]["fog"][0] == {"mean": None, "deviation": None}


def test_warns_about_unfinished_runs_and_ends_with_an_error_if_all_are(tmp_path, capsys):
    write(tmp_path / "a", record(complete=False))
    assert summarize.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "warning: " in error
    assert "is not complete (4 visits so far)" in error
    assert "error: none of the runs is complete" in error
    write(tmp_path / "b", record())
    assert summarize.main([str(tmp_path)]) == 0
    assert "is not complete" in capsys.readouterr().err


def test_nothing_there(tmp_path, capsys):
    assert summarize.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: no results.json in or below {tmp_path}")


@pytest.mark.slow
def test_real_runs_of_two_seeds_are_one_group(minicity, tmp_path, capsys):
    for seed in (0, 1):
        options = seeded_reservoir(tmp_path / "cache")
        folder, flags = tmp_path / f"seed{seed}", [f"--seed={seed}"]
        run("segformer-tiny_tent_reservoir", minicity, folder, *options, flags=flags)
    capsys.readouterr()
    assert summarize.main([str(tmp_path), f"--json={tmp_path / 's.json'}"]) == 0
    assert capsys.readouterr().err == ""
    (group,) = json.loads((tmp_path / "s.json").read_text())["groups"]
    assert group["name"] == "segformer-tiny_tent_reservoir"
    assert group["seeds"] == [0, 1]
    assert group["published"] is None
    # Random weights differ by seed, hence the scores.
    assert group["mIoU"]["mean"][0]["deviation"] > 0
