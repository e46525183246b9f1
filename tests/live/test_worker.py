import cv2
import numpy as np

from mmseg_reservoir.live import StreamWorker
from mmseg_reservoir.live.worker import TIMELINE, WIDTH


def decoded(jpeg):
    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)


def test_the_newest_frame_and_all_experts_are_seen(station, stream, until):
    assert station.picture("image") is None
    assert station.state()["frame"] == 0
    for expert in (0, 1, 1):
        stream.step(expert, opened=expert == 1)
    until(lambda: station.state()["frame"] == 3)
    state = station.state()
    assert (state["timeline"], state["k"], state["running"]) == ([0, 1, 1], 2, True)
    assert state["fps"] > 0
    assert station.state(since=2)["timeline"] == [1]
    assert station.state(since=99)["timeline"] == []
    assert state["messages"][0] == "frame 2: expert 1 is new"
    assert abs(decoded(station.picture("image")).mean() - 200) < 3
    assert np.abs(decoded(station.picture("overlay"))[5, 5] - np.array([128.0, 64, 160])).max() < 4


def test_what_is_known_of_stream_frame_and_expert_is_seen(station, stream, until):
    state = station.state()
    assert state["stream"] == {
        "name": "drive",
        "total": 40,
        "classes": {"road": [128, 64, 128], "car": [0, 0, 142]},
    }
    assert (state["number"], state["confidence"], state["expert"]) == (0, None, {})
    stream.step()
    until(lambda: station.state()["frame"] == 1)
    assert station.state()["number"] == 1  # nobody tells: it is counted
    stream.step(number=31, confidence=0.75, state={"alarms": 2, "trust": 0.5})
    until(lambda: station.state()["frame"] == 2)
    state = station.state()
    assert (state["number"], state["confidence"]) == (31, 0.75)
    assert state["expert"] == {"alarms": 2, "trust": 0.5}


def test_large_frames_are_made_smaller_and_the_timeline_is_bounded(station, stream, until):
    stream.step(size=(60, 2000))
    until(lambda: station.state()["frame"] == 1)
    assert decoded(station.picture("overlay")).shape == (29, WIDTH, 3)
    for i in range(TIMELINE + 5):
        stream.step(i % 3)
    until(lambda: station.state()["frame"] == TIMELINE + 6)
    assert len(station.state()["timeline"]) == TIMELINE


def test_wishes_come_true_between_frames(station, stream, until, tmp_path):
    stream.step()
    until(lambda: station.state()["frame"] == 1)
    assert station.wish("pause")
    assert station.wish("reset", 1)
    assert station.wish("save")
    assert stream.asked == []  # no frame has come since
    stream.step()
    until(lambda: len(stream.asked) == 3)
    assert stream.asked == [("pause", True), ("reset", 1), ("save", tmp_path / "saved")]
    until(lambda: station.state()["paused"])
    assert any("reservoir saved" in text for text in station.state()["messages"])


def test_what_makes_no_sense_is_no_wish(station, stream, until):
    stream.step(k=2)
    until(lambda: station.state()["frame"] == 1)
    for action, expert in (("reset", 2), ("reset", -1), ("reset", None), ("explode", None)):
        assert not station.wish(action, expert)
    for _ in range(16):
        assert station.wish("pause")
    assert not station.wish("pause")  # enough are waiting


def test_a_wish_that_fails_breaks_nothing(station, stream, until):
    def fail(folder):
        raise OSError("the disk is full")

    stream.save = fail
    stream.step()
    until(lambda: station.state()["frame"] == 1)
    station.wish("save")
    stream.step()
    until(lambda: "frame 1: not done: OSError: the disk is full" in station.state()["messages"])
    assert station.running


def test_stopping_does_not_wait_for_a_frame(stream, tmp_path):
    station = StreamWorker(stream, tmp_path)
    station.start()
    station.stop(timeout=20)
    assert not station.running


def test_a_broken_stream_is_told(stream, tmp_path, until, caplog):
    station = StreamWorker(stream, tmp_path)
    station.start()
    stream.step()
    stream.end(ValueError("no more frames"))
    until(lambda: not station.running)
    assert str(station.error) == "no more frames"
    assert station.state()["messages"][-1].endswith("the stream broke: ValueError: no more frames")
    assert "the stream broke: ValueError: no more frames" in caplog.text
    assert station.wish("save")  # a reservoir can be saved all the same
    assert stream.asked == [("save", tmp_path)]
