"""The command line that writes MiniCity."""

from mmseg_reservoir.cli.minicity import main

FEW = ["--train", "2", "--val", "1", "--per-condition", "1"]


def test_says_what_it_wrote(tmp_path, capsys):
    root = tmp_path / "minicity"
    assert main([str(root), *FEW]) == 0
    out = capsys.readouterr().out
    assert "clear:    2 train,    1 val" in out
    assert "snow:    1 train,    0 val" in out
    assert f"7 pictures written: {root.resolve()}" in out
    assert len(list(root.rglob("*_rgb_anon.png"))) == 7
    assert main([str(root), *FEW]) == 0
    assert "already" in capsys.readouterr().out


def test_errors_are_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("ten years of work")
    assert main([str(tmp_path), *FEW]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "not a MiniCity data set" in captured.err


def test_negative_counts_are_refused(tmp_path, capsys):
    assert main([str(tmp_path / "new"), "--train", "-1"]) == 2
    assert "must be 0 or more, got -1" in capsys.readouterr().err
