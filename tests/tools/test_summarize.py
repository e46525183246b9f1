import json

from run_records import record, write
from stream_run import run

from tools import summarize


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


def test_warns_about_unfinished_runs_and_ends_with_an_error_if_all_are(tmp_path, capsys):
    write(tmp_path / "a", record(complete=False))
    assert summarize.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "warning: " in error
    assert "is not complete (4 visits are there)" in error
    assert "error: none of the runs is complete" in error
    write(tmp_path / "b", record())
    assert summarize.main([str(tmp_path)]) == 0
    assert "is not complete" in capsys.readouterr().err


def test_nothing_there(tmp_path, capsys):
    assert summarize.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: no results.json in or below {tmp_path}")


def test_real_runs_of_two_seeds_are_one_group(minicity, tmp_path, capsys):
    for seed in (0, 1):
        flags = [f"--seed={seed}", "--random-weights"]
        run("segformer-tiny_source", minicity, tmp_path / f"seed{seed}", flags=flags)
    capsys.readouterr()
    assert summarize.main([str(tmp_path), f"--json={tmp_path / 's.json'}"]) == 0
    assert capsys.readouterr().err == ""
    (group,) = json.loads((tmp_path / "s.json").read_text())["groups"]
    assert group["name"] == "segformer-tiny_source"
    assert group["seeds"] == [0, 1]
    assert group["published"] is None
    # Random weights differ by seed, hence the scores.
    assert group["mIoU"]["mean"][0]["deviation"] > 0
