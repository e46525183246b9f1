from pathlib import Path

import cv2
import numpy as np
import pytest

from mmseg_reservoir.footage import frame_writer
from mmseg_reservoir.footage.frame_writer import FrameWriter
from mmseg_reservoir.footage.frames import open_frames
from mmseg_reservoir.footage.inferencer import FrameResult
from mmseg_reservoir.footage.watched_stream import WatchedStream
from mmseg_reservoir.live import StreamInfo
from mmseg_reservoir.seg import label_images


class Inferencer:
    """Notes what is asked of it."""

    dataset_meta = {"classes": ("road", "car"), "palette": [[0, 0, 0], [200, 100, 0]]}

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        return lambda value: self.asked.append((name, value))

    def expert_state(self, expert):
        return {"alarms": expert}


def frame(index):
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    labels = np.full((2, 4), index, np.uint8)
    return FrameResult(
        name=f"{index}",
        index=index,
        image=image,
        labels=labels,
        confidence=np.ones((2, 4), np.float32),
        expert=index,
        k=index + 1,
        opened=index == 1,
        weight=1.0,
        seconds=0.1,
    )


def test_frames_say_where_they_went(tmp_path):
    writer = FrameWriter(tmp_path, "drive", [[0, 0, 0], [200, 100, 0]])
    first, second = WatchedStream(Inferencer(), [frame(0), frame(1)], writer)
    assert first.image[0, 0].tolist() == [0, 1, 2]
    assert second.overlay[0, 0].tolist() == [0, 50, 101]
    assert [(f.expert, f.k, f.opened) for f in (first, second)] == [(0, 1, False), (1, 2, True)]
    assert [(f.number, f.confidence, f.state) for f in (first, second)] == [
        (1, 1.0, {"alarms": 0}),
        (2, 1.0, {"alarms": 1}),
    ]


def test_the_stream_has_name_length_and_classes(tmp_path):
    writer = FrameWriter(tmp_path, "drive", [[0, 0, 0], [200, 100, 0]])
    images = [np.zeros((2, 4, 3), np.uint8)] * 7
    stream = WatchedStream(Inferencer(), [frame(6)], writer, open_frames(images, every=3))
    classes = {"road": [0, 0, 0], "car": [200, 100, 0]}
    assert stream.info == StreamInfo("drive", 3, classes)  # frames 0, 3 and 6
    assert next(iter(stream)).number == 3
    assert WatchedStream(Inferencer(), [], writer).info.total is None


@pytest.mark.parametrize("shown", ["frames", "none"])
def test_an_overlay_is_drawn_once_for_files_and_page(tmp_path, monkeypatch, shown):
    drawn = []

    def overlay(image, label, palette):
        drawn.append(image)
        return label_images.overlay(image, label, palette)

    monkeypatch.setattr(frame_writer, "overlay", overlay)
    writer = FrameWriter(tmp_path, "drive", [[0, 0, 0], [200, 100, 0]], shown=shown)

    def written():
        for index in range(2):
            one = frame(index)
            writer.write(one)
            yield one

    with writer:
        frames = list(WatchedStream(Inferencer(), written(), writer))
    assert len(drawn) == 2
    if shown == "frames":
        for index, live in enumerate(frames):
            stored = cv2.imread(str(tmp_path / "overlay" / f"{index}.png"))
            np.testing.assert_array_equal(live.overlay, stored)


def test_what_a_viewer_asks_for_is_done_by_the_inferencer(tmp_path):
    inferencer = Inferencer()
    source = open_frames([np.zeros((2, 4, 3), np.uint8)])
    stream = WatchedStream(inferencer, [], FrameWriter(tmp_path, "drive", [[0, 0, 0]]), source)
    stream.pause(True)
    stream.reset(3)
    stream.save(Path("there"))
    stream.stop()
    assert source.stopping.is_set()
    assert inferencer.asked == [("freeze", True), ("reset", 3), ("save", Path("there"))]
