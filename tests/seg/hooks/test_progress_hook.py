import sys

from stream_run import run


def test_plain_lines_where_there_is_no_terminal(source_run):
    lines = source_run.printed.splitlines()
    steps = [line for line in lines if "round 1/2 night: 4/12 images" in line]
    assert len(steps) == 1
    assert "expert 0, K 1, mIoU" in steps[0]
    assert sum("round 2/2 night: mIoU" in line and "K 1" in line for line in lines) == 1


def test_bar_on_a_terminal(minicity, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    run("segformer-tiny_source", minicity, tmp_path, "test_cfg.rounds=1")
    printed = capfd.readouterr().out
    assert "━" in printed
    assert "6/6" in printed
    assert "round 1/1 night" in printed
    assert "expert 0, K 1, mIoU" in printed
