import re
import sys

import pytest

from mmseg_reservoir.report import runs_progress
from mmseg_reservoir.report.progress import StreamProgress
from mmseg_reservoir.report.runs_progress import Position, RunsProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr(runs_progress.time, "monotonic", lambda: now[0])
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
