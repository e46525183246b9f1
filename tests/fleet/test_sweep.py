"""Sweeps on two workers of Ray."""

import json

import pytest

from mmseg_reservoir.cli import sweep

pytest.importorskip("ray", reason="sweeps need the extra ray")

SHORT = ["--cfg-options", "stream.rounds=1", "data.corruptions=[contrast]"]


@pytest.mark.slow
def test_runs_are_summarised_once_and_failures_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["cls/digits_convnet.py", "--method", "source", "norm", "--seeds", "0", "1", "--jobs=2"]
    assert sweep.main([*words, "--out=out", *SHORT]) == 0
    printed = capsys.readouterr().out
    assert "4 runs, 0 of them complete" in printed
    assert "digits_convnet_norm" in (tmp_path / "out/summary.md").read_text()
    groups = json.loads((tmp_path / "out/summary.json").read_text())["groups"]
    assert [group["seeds"] for group in groups] == [[0, 1], [0, 1]]

    # Nothing is left to do: no Ray is started.
    monkeypatch.setattr(sweep, "ray_session", None)
    assert sweep.main([*words, "--out=out", *SHORT]) == 0
    monkeypatch.undo()

    monkeypatch.chdir(tmp_path)
    broken = ["--cfg-options", "stream.nosuch=1"]
    assert sweep.main([*words, "--out=broken", "--retries=1", *broken]) == 2
    said = capsys.readouterr()
    assert "digits_convnet_norm seed 1 failed; its last lines:" in said.err
    assert "none of the runs is complete" in said.err
    log = (tmp_path / "broken/cls/digits_convnet_norm/seed1/log.txt").read_text()
    assert log.count("error: ") == 2  # it was tried twice


def test_mistakes_end_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words, message in (
        (["nosuch.py"], "no config file nosuch.py"),
        (["cls/digits_convnet.py"], "choose rows of it, --method"),
        (["cls/digits_convnet.py", "--with-reservoir"], "give --method, too"),
        (["minicity/segformer-tiny_tent.py", "--seeds=-1"], "a seed is a whole number"),
    ):
        assert sweep.main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
