import re
import sys

import pytest

from mmseg_reservoir.report import progress as progress_module
from mmseg_reservoir.report.progress import Position, RunsProgress, StreamProgress

PLACE = {"round": 2, "domain": "fog", "expert": 1, "k": 3, "score": "error 12.3"}


def test_plain_lines_say_where_the_stream_is(capsys):
    with StreamProgress(total=3, unit="batches", rounds=20, interval=-1.0) as progress:
        progress.advance(**PLACE)
        line = capsys.readouterr().out
        assert line.startswith("round 2/20 fog: 1/3 batches, ")
        assert line.endswith("s left, expert 1, K 3, error 12.3\n")
        progress.advance(**PLACE, count=2)
        assert "3/3 batches, 0 s left" in capsys.readouterr().out
    assert capsys.readouterr().out == ""  # all is said


def test_length_need_not_be_known_and_quiet_is_quiet(capsys):
    with StreamProgress(total=None, unit="batches", interval=-1.0) as progress:
        progress.advance(**PLACE | {"score": ""})
    assert capsys.readouterr().out == "round 2 fog: 1 batches, expert 1, K 3\n"
    with StreamProgress(total=1, quiet=True, interval=-1.0) as progress:
        progress.advance(**PLACE)
        progress.end_visit("error 12.34")
    assert capsys.readouterr().out == ""


def test_between_two_lines_it_is_silent_until_the_end():
    said = []
    with StreamProgress(total=None, interval=1e9, write_line=said.append) as progress:
        for _ in range(3):
            progress.advance(**PLACE)
        assert said == []
    assert said == ["round 2 fog: 3 images, expert 1, K 3, error 12.3"]


def test_an_error_leaves_word_of_the_place():
    said = []

    def interrupted():
        with StreamProgress(total=None, interval=1e9, write_line=said.append) as progress:
            progress.advance(**PLACE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(said) == 1


def test_the_line_of_a_visit_is_its_last():
    said = []
    with StreamProgress(total=4, rounds=2, interval=1e9, write_line=said.append) as progress:
        progress.advance(**PLACE, count=4)
        progress.end_visit("mIoU 34.87")
    assert said == ["round 2/2 fog: mIoU 34.87, K 3, 4/4 images, 0 s left"]


def test_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    said = []
    with StreamProgress(total=2, rounds=2, write_line=said.append) as progress:
        progress.advance(**PLACE, count=2)
        progress.end_visit("error 12.34")
    printed = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)  # without colours
    assert "━" in printed
    assert "2/2" in printed
    assert "expert 1, K 3, error 12.3" in printed
    assert "error 12.34, K 3" in printed
    assert said == []


def test_a_bar_gives_the_cursor_back_and_visits_are_noted(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    noted, said = [], []
    progress = StreamProgress(total=2, rounds=3, write_line=said.append, log_line=noted.append)
    progress.start()
    progress.advance(**PLACE)
    progress.end_visit("mIoU 1.00")
    assert noted == [f"round 2/3 fog: mIoU 1.00, K 3, {progress._count()}"]
    assert said == []
    progress.stop()
    printed = capsys.readouterr().out
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l")


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    return now


def test_a_position_is_what_a_run_writes(tmp_path):
    file = tmp_path / "progress.json"
    assert Position.read(file) is None
    with StreamProgress(total=3, rounds=2, quiet=True, file=file) as progress:
        progress.advance(1, "fog", expert=1, k=2)
        assert Position.read(file) == (1, 3, "round 1/2 fog", 1, 2)
        progress.advance(1, "fog", expert=0, k=2)  # within the second
        assert Position.read(file).done == 1
        progress.advance(1, "night", expert=2, k=3)
        assert Position.read(file) == (3, 3, "round 1/2 night", 2, 3)


def test_plain_lines_have_frames_rate_expert_and_time_left(clock, capsys):
    with RunsProgress(["a", "b"], frames=30, workers=1, interval=10.0) as progress:
        progress.start("a")
        progress.update("a", Position(10, 30, "round 1/2 fog", 1, 2))
        clock[0] += 20
        progress.update("a", Position(20, 30, "round 2/2 fog", 1, 3))
        progress.finish("a", 45.0)
    assert capsys.readouterr().out.splitlines() == [
        "a: 0/30 frames, loading and calibrating",
        "a: 20/30 frames, round 2/2 fog, expert 1 of 3, 0.5 frames/s, 20 s left, "
        "all runs: about 80 s left",
        "a: 30/30 frames, finished in 45 s, all runs: about 60 s left",
    ]


def test_time_left_is_shared_by_the_workers_but_not_below_the_slowest_run(clock):
    progress = RunsProgress(["a", "b", "c"], frames=10, workers=2)
    assert progress.seconds_left() is None
    for name in "ab":
        progress.update(name, Position(0, 10, "", 0, 1))
    clock[0] += 4
    progress.update("a", Position(4, 10, "", 0, 1))  # 1 s per frame, 6 s left
    progress.update("b", Position(1, 10, "", 0, 1))  # 4 s per frame, 36 s left; c: 25 s
    assert progress.seconds_left() == 36
    progress.finish("b", 4)
    assert progress.seconds_left() == 25


def test_bars_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with RunsProgress(["TENT", "align"], frames=4, workers=2) as progress:
        progress.update("align", Position(2, 4, "round 1/2 fog", 1, 2))
    printed = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)
    assert re.search("align +━+.* 2/4 round 1/2 fog, expert 1 of 2", printed)
    assert re.search("all runs +━+.* 2/8", printed)
