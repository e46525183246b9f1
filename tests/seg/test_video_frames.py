import threading
import time

import cv2
import numpy as np
import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import video_frames
from mmseg_reservoir.seg.frames import open_frames


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "drive.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"FFV1"), 25, (32, 16))
    for number in range(7):
        writer.write(np.full((16, 32, 3), 10 * number, np.uint8))
    writer.release()
    return path


def test_the_frames_of_a_video_in_their_order(video):
    source = open_frames(video)
    assert (source.total, source.fps, source.name) == (7, 25, "drive")
    found = list(source)
    assert [f.name for f in found] == [f"drive_{i:06d}" for i in range(7)]
    assert [round(f.image.mean()) for f in found] == [0, 10, 20, 30, 40, 50, 60]
    assert source.broken == 0


def test_each_nth_frame(video):
    source = open_frames(video, every=3)
    assert (source.total, source.fps) == (3, 25 / 3)
    found = [(f.index, round(f.image.mean())) for f in source]
    assert found == [(0, 0), (3, 30), (6, 60)]


def test_a_video_that_ends_early_is_told(video, caplog, monkeypatch):
    source = open_frames(video)
    monkeypatch.setattr(source, "_count", 10)
    assert len(list(source)) == 7
    assert source.broken == 3
    assert "ends after 7 of its 10 frames" in caplog.text


class FakeCapture:
    """A camera that takes pictures 0, 1, 2, ... as fast as it is allowed to."""

    def __init__(self, device):
        assert device == 3
        self.taken = 0
        self.released = False
        FakeCapture.last = self
        self.go = threading.Event()

    def isOpened(self):
        return True

    def read(self):
        if self.taken == 20:
            return False, None
        if self.taken == 1:
            self.go.wait(5)
        self.taken += 1
        return True, np.full((2, 2, 3), self.taken - 1, np.uint8)

    def release(self):
        self.released = True


def test_a_camera_gives_its_newest_frame_and_counts_the_others(monkeypatch):
    monkeypatch.setattr(video_frames.cv2, "VideoCapture", FakeCapture)
    source = open_frames("3")
    assert source.total is None
    stream = iter(source)
    first = next(stream)
    assert (first.name, first.image.max(), source.dropped) == ("camera3_000000", 0, 0)
    FakeCapture.last.go.set()
    while FakeCapture.last.taken < 20:  # somebody is busy with the first frame
        time.sleep(0.001)
    time.sleep(0.05)
    second = next(stream)
    assert (second.name, second.image.max(), source.dropped) == ("camera3_000001", 19, 18)
    assert list(stream) == []
    assert FakeCapture.last.released


def test_a_camera_is_released_when_nobody_wants_more(monkeypatch):
    monkeypatch.setattr(video_frames.cv2, "VideoCapture", FakeCapture)
    stream = iter(open_frames(3))
    next(stream)
    FakeCapture.last.go.set()
    stream.close()
    assert FakeCapture.last.released


def test_a_camera_that_hangs_can_be_stopped(monkeypatch):
    monkeypatch.setattr(video_frames.cv2, "VideoCapture", FakeCapture)
    source = open_frames(3)
    stream = iter(source)
    next(stream)
    threading.Timer(0.1, source.stop).start()
    threading.Timer(1.0, FakeCapture.last.go.set).start()  # the driver gives up at last
    assert list(stream) == []
    assert FakeCapture.last.released


def test_no_camera_is_explained(monkeypatch):
    monkeypatch.setattr(FakeCapture, "isOpened", lambda self: False)
    monkeypatch.setattr(video_frames.cv2, "VideoCapture", FakeCapture)
    with pytest.raises(ReservoirError, match="there is no camera 3"):
        next(iter(open_frames(3)))
