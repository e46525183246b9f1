import threading
import time

import cv2
import numpy as np
import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import video_frames
from mmseg_reservoir.footage.frames import open_frames


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


ADDRESS = "rtsp://me:secret@10.0.0.5:554/front?token=secret"


class FakeStream:
    """A connection to a camera that breaks now and then; the third and the fourth are refused."""

    frames = (2, 3, None, None, 1)
    opened = 0
    count = -1
    released = 0

    def __init__(self, address, *_):
        assert address == ADDRESS
        number, FakeStream.opened = FakeStream.opened, FakeStream.opened + 1
        self.left = self.frames[number] if number < len(self.frames) else None

    def isOpened(self):
        return self.left is not None

    def get(self, what):
        return self.count if what == cv2.CAP_PROP_FRAME_COUNT else 0

    def read(self):
        if not self.left:
            return False, None
        self.left -= 1
        return True, np.zeros((2, 2, 3), np.uint8)

    grab, retrieve = isOpened, read

    def release(self):
        FakeStream.released += 1


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setattr(video_frames.cv2, "VideoCapture", FakeStream)
    for name in ("opened", "released"):
        monkeypatch.setattr(FakeStream, name, 0)
    return FakeStream


def test_a_network_camera_reconnects_with_back_off_and_counts_the_gap(network, caplog):
    assert isinstance(open_frames(ADDRESS), video_frames.NetworkCamera)  # takes the first one
    source = video_frames.NetworkCamera(ADDRESS, first_wait=0.02, longest_wait=0.05)
    assert (source.name, source.is_live, source.total) == ("10.0.0.5_554_front", True, None)
    assert source.losses() == {"dropped": 0}
    found = []
    stream = iter(source)
    while not source.gaps:
        found.append(next(stream))
    stream.close()
    assert [f.index for f in found] == list(range(len(found)))
    assert 1 <= len(found) <= 4
    # Lost after the second connection, back with the fifth: waits of 0.02, 0.04 and 0.05 s.
    assert source.losses()["gaps"] == 1
    assert source.losses()["gap_seconds"] >= 0.11
    assert "rtsp://10.0.0.5:554/front is lost: connecting again" in caplog.messages
    assert "rtsp://10.0.0.5:554/front is back after" in caplog.text
    assert "secret" not in caplog.text


def test_a_network_camera_ends_when_it_stays_lost(network, monkeypatch, caplog):
    monkeypatch.setattr(FakeStream, "frames", (1,))
    source = video_frames.NetworkCamera(ADDRESS, first_wait=0.01, patience=0.05)
    assert len(list(source)) == 1
    assert network.opened > 1
    assert source.losses() == {"dropped": 0}
    assert "gave no frame for 0 s: the stream ends" in caplog.text


def test_a_network_camera_stops_at_once_while_it_waits(network):
    source = video_frames.NetworkCamera(ADDRESS, first_wait=60)
    stream = iter(source)
    next(stream)
    time.sleep(0.05)  # the connection is lost by now
    start = time.monotonic()
    stream.close()
    assert time.monotonic() - start < 5
    assert network.released == network.opened == 1


def test_a_video_in_the_network_is_read_whole(network, monkeypatch):
    monkeypatch.setattr(FakeStream, "count", 2)
    monkeypatch.setattr(FakeStream, "frames", (2, 2, 2))
    monkeypatch.setattr(FakeStream, "grab", lambda self: bool(self.left))
    source = open_frames(ADDRESS)
    assert (source.total, source.is_live) == (2, False)
    assert [f.name for f in source] == ["10.0.0.5_554_front_000000", "10.0.0.5_554_front_000001"]


def test_an_address_without_a_stream_is_explained(network, monkeypatch):
    monkeypatch.setattr(FakeStream, "frames", ())
    with pytest.raises(ReservoirError, match="front cannot be opened as a video") as told:
        open_frames(ADDRESS)
    assert "secret" not in str(told.value)
