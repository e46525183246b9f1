import threading
import time

import cv2
import numpy as np
import pytest
from image_files import write_image

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import frames
from mmseg_reservoir.seg.frames import open_frames


def names(source, every=1):
    return [frame.name for frame in open_frames(source, every)]


@pytest.fixture
def folder(tmp_path):
    for number in (1, 2, 10):
        write_image(tmp_path / "in" / f"frame{number}.png", number)
    write_image(tmp_path / "in" / "b" / "frame3.JPG", 30)
    (tmp_path / "in" / "notes.txt").touch()
    return tmp_path / "in"


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "drive.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"FFV1"), 25, (32, 16))
    for number in range(7):
        writer.write(np.full((16, 32, 3), 10 * number, np.uint8))
    writer.release()
    return path


def test_a_folder_goes_by_the_numbers_in_its_names(folder):
    source = open_frames(folder)
    assert (source.total, source.name) == (4, "in")
    found = list(source)
    assert [f.name for f in found] == ["b/frame3", "frame1", "frame2", "frame10"]
    assert [f.index for f in found] == [0, 1, 2, 3]
    assert [round(f.image.mean()) for f in found] == [30, 1, 2, 10]
    assert found[0].image.shape == (8, 8, 3)
    assert names(folder) == names(str(folder))  # and again


def test_a_glob_an_image_and_lists(folder):
    assert names(f"{folder}/frame*.png") == ["frame1", "frame2", "frame10"]
    assert names(f"{folder}/**/frame*") == ["b/frame3", "frame1", "frame2", "frame10"]
    assert names(folder / "frame2.png") == ["frame2"]
    assert names([folder / "frame10.png", str(folder / "frame1.png")]) == ["frame10", "frame1"]


def test_arrays_are_frames(folder):
    image = np.zeros((4, 6, 3), np.uint8)
    assert names(image) == ["frames_000000"]
    assert names([image, image]) == ["frames_000000", "frames_000001"]
    for wrong in (np.zeros((4, 6), np.uint8), np.zeros((4, 6, 3))):
        with pytest.raises(ReservoirError, match=r"BGR array \(H, W, 3\) of uint8, got \(4, 6"):
            names([wrong])


def test_the_frames_of_a_video_in_their_order(video):
    source = open_frames(video)
    assert (source.total, source.fps, source.name) == (7, 25, "drive")
    found = list(source)
    assert [f.name for f in found] == [f"drive_{i:06d}" for i in range(7)]
    assert [round(f.image.mean()) for f in found] == [0, 10, 20, 30, 40, 50, 60]
    assert source.broken == 0


def test_each_nth_frame(folder, video):
    source = open_frames(video, every=3)
    assert (source.total, source.fps) == (3, 25 / 3)
    found = [(f.index, round(f.image.mean())) for f in source]
    assert found == [(0, 0), (3, 30), (6, 60)]
    assert names(folder, every=2) == ["b/frame3", "frame2"]
    with pytest.raises(ReservoirError, match="every must be 1"):
        open_frames(folder, every=0)


def test_broken_frames_are_reported_skipped_and_counted(folder, caplog):
    whole = (folder / "b" / "frame3.JPG").read_bytes()
    (folder / "frame2.png").write_bytes(b"no png")
    (folder / "frame4.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "frame5.png").touch()
    source = open_frames(folder)
    assert [(f.name, f.index) for f in source] == [("b/frame3", 0), ("frame1", 1), ("frame10", 5)]
    assert (source.total, source.broken) == (6, 3)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{folder / n} cannot be decoded: skipped"
        for n in ("frame2.png", "frame4.jpg", "frame5.png")
    ]


def test_a_video_that_ends_early_is_told(video, caplog, monkeypatch):
    source = open_frames(video)
    monkeypatch.setattr(source, "_count", 10)
    assert len(list(source)) == 7
    assert source.broken == 3
    assert "ends after 7 of its 10 frames" in caplog.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "there is no .*nowhere: name an image"),
        ("empty", "no image in the folder .*empty"),
        ("no*.png", r"no image in .*no\*.png"),
        ("text.mp4", "neither an image nor a video"),
    ],
)
def test_mistakes_are_explained(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(ReservoirError, match=message):
        open_frames(tmp_path / name)


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
    monkeypatch.setattr(frames.cv2, "VideoCapture", FakeCapture)
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
    monkeypatch.setattr(frames.cv2, "VideoCapture", FakeCapture)
    stream = iter(open_frames(3))
    next(stream)
    FakeCapture.last.go.set()
    stream.close()
    assert FakeCapture.last.released


def test_no_camera_is_explained(monkeypatch):
    monkeypatch.setattr(FakeCapture, "isOpened", lambda self: False)
    monkeypatch.setattr(frames.cv2, "VideoCapture", FakeCapture)
    with pytest.raises(ReservoirError, match="there is no camera 3"):
        next(iter(open_frames(3)))
