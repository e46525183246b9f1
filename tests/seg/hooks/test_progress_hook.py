import sys

from stream_run import TINY, run


def test_plain_lines_where_there_is_no_terminal(minicity, tmp_path, capfd):
    config = tmp_path / "c.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        "custom_hooks = [dict(type='AdaptationHook'), dict(type='ProgressHook', interval=0),\n"
        "                dict(type='ResultsHook')]\n"
    )
    run(config, minicity, tmp_path)
    lines = capfd.readouterr().out.splitlines()
    steps = [line for line in lines if "round 1/2 night: 4/12 images" in line]
    assert len(steps) == 1
    assert "expert 0, K 1, mIoU" in steps[0]
    assert sum("round 2/2 night: mIoU" in line and "K 1" in line for line in lines) == 1


def test_bar_on_a_terminal(minicity, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    run("segformer-tiny_source", minicity, tmp_path)
    printed = capfd.readouterr().out
    assert "━" in printed
    assert "12/12" in printed
    assert "round 2/2 night" in printed
    assert "expert 0, K 1, mIoU" in printed
