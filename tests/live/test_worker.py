import cv2
import numpy as np

from mmseg_reservoir.live import StreamWorker
from mmseg_reservoir.live.worker import TIMELINE, WIDTH


def decoded(jpeg):
    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)


def test_the_newest_frame_and_all_experts_are_seen(worker, stream, until):
    assert worker.picture("image") is None
    assert worker.state()["frame"] == 0
    for expert in (0, 1, 1):
        stream.step(expert, opened=expert == 1)
    until(lambda: worker.state()["frame"] == 3)
    state = worker.state()
    assert (state["timeline"], state["k"], state["running"]) == ([0, 1, 1], 2, True)
    assert state["fps"] > 0
    assert worker.state(since=2)["timeline"] == [1]
    assert worker.state(since=99)["timeline"] == []
    assert state["messages"][0] == "frame 2: expert 1 is new"
    assert abs(decoded(worker.picture("image")).mean() - 200) < 3
    assert np.abs(decoded(worker.picture("overlay"))[5, 5] - np.array([128.0, 64, 160])).max() < 4


def test_what_is_known_of_stream_frame_and_expert_is_seen(worker, stream, until):
    state = worker.state()
    assert state["stream"] == {
        "name": "drive",
        "total": 40,
        "classes": {"road": [128, 64, 128], "car": [0, 0, 142]},
    }
    assert (state["number"], state["confidence"], state["expert"]) == (0, None, {})
    stream.step()
    until(lambda: worker.state()["frame"] == 1)
    assert worker.state()["number"] == 1  # nobody tells: it is counted
    stream.step(number=31, confidence=0.75, state={"alarms": 2, "trust": 0.5})
    until(lambda: worker.state()["frame"] == 2)
    state = worker.state()
    assert (state["number"], state["confidence"]) == (31, 0.75)
    assert state["expert"] == {"alarms": 2, "trust": 0.5}


def test_large_frames_are_made_smaller_and_the_timeline_is_bounded(worker, stream, until):
    stream.step(size=(60, 2000))
    until(lambda: worker.state()["frame"] == 1)
    assert decoded(worker.picture("overlay")).shape == (29, WIDTH, 3)
    for i in range(TIMELINE + 5):
        stream.step(i % 3)
    until(lambda: worker.state()["frame"] == TIMELINE + 6)
    assert len(worker.state()["timeline"]) == TIMELINE


def test_actions_run_between_frames(worker, stream, until, tmp_path):
    stream.step()
    until(lambda: worker.state()["frame"] == 1)
    assert worker.enqueue("pause")
    assert worker.enqueue("reset", 1)
    assert worker.enqueue("save")
    assert stream.asked == []  # no frame has come since
    stream.step()
    until(lambda: len(stream.asked) == 3)
    assert stream.asked == [("pause", True), ("reset", 1), ("save", tmp_path / "saved")]
    until(lambda: worker.state()["paused"])
    assert any("reservoir saved" in text for text in worker.state()["messages"])


def test_what_makes_no_sense_is_no_action(worker, stream, until):
    stream.step(k=2)
    until(lambda: worker.state()["frame"] == 1)
    for action, expert in (("reset", 2), ("reset", -1), ("reset", None), ("explode", None)):
        assert not worker.enqueue(action, expert)
    for _ in range(16):
        assert worker.enqueue("pause")
    assert not worker.enqueue("pause")  # enough are waiting


def test_an_action_that_fails_breaks_nothing(worker, stream, until):
    def fail(folder):
        raise OSError("the disk is full")

    stream.save = fail
    stream.step()
    until(lambda: worker.state()["frame"] == 1)
    worker.enqueue("save")
    stream.step()
    until(lambda: "frame 1: not done: OSError: the disk is full" in worker.state()["messages"])
    assert worker.running


def test_stopping_does_not_wait_for_a_frame(stream, tmp_path):
    worker = StreamWorker(stream, tmp_path)
    worker.start()
    worker.stop(timeout=20)
    assert not worker.running


def test_a_broken_stream_is_told(stream, tmp_path, until, caplog):
    worker = StreamWorker(stream, tmp_path)
    worker.start()
    stream.step()
    stream.end(ValueError("no more frames"))
    until(lambda: not worker.running)
    assert str(worker.error) == "no more frames"
    assert worker.state()["messages"][-1].endswith("the stream broke: ValueError: no more frames")
    assert "the stream broke: ValueError: no more frames" in caplog.text
    assert worker.enqueue("save")  # a reservoir can be saved all the same
    assert stream.asked == [("save", tmp_path)]
