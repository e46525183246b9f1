import re
import sys

import pytest

from mmseg_reservoir.report.progress import StreamProgress

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
    with StreamProgress(total=None, interval=1e9, say=said.append) as progress:
        for _ in range(3):
            progress.advance(**PLACE)
        assert said == []
    assert said == ["round 2 fog: 3 images, expert 1, K 3, error 12.3"]


def test_an_error_leaves_word_of_the_place():
    said = []

    def interrupted():
        with StreamProgress(total=None, interval=1e9, say=said.append) as progress:
            progress.advance(**PLACE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(said) == 1


def test_the_line_of_a_visit_is_its_last():
    said = []
    with StreamProgress(total=4, rounds=2, interval=1e9, say=said.append) as progress:
        progress.advance(**PLACE, count=4)
        progress.end_visit("mIoU 34.87")
    assert said == ["round 2/2 fog: mIoU 34.87, K 3, 4/4 images, 0 s left"]


def test_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    said = []
    with StreamProgress(total=2, rounds=2, say=said.append) as progress:
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
    progress = StreamProgress(total=2, rounds=3, say=said.append, note=noted.append)
    progress.start()
    progress.advance(**PLACE)
    progress.end_visit("mIoU 1.00")
    assert noted == [f"round 2/3 fog: mIoU 1.00, K 3, {progress._count()}"]
    assert said == []
    progress.stop()
    printed = capsys.readouterr().out
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l")
