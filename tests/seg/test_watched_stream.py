from pathlib import Path

import numpy as np

from mmseg_reservoir.seg.inferencer import FrameResult
from mmseg_reservoir.seg.watched_stream import WatchedStream


class Inferencer:
    """Notes what is asked of it."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        return lambda value: self.asked.append((name, value))


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


def test_frames_are_in_rgb_and_say_where_they_went():
    first, second = WatchedStream(Inferencer(), [frame(0), frame(1)])
    assert first.image[0, 0].tolist() == [2, 1, 0]
    assert second.labels.tolist() == [[1] * 4] * 2
    assert [(f.expert, f.k, f.opened) for f in (first, second)] == [(0, 1, False), (1, 2, True)]


def test_what_a_viewer_asks_for_is_done_by_the_inferencer():
    inferencer = Inferencer()
    stream = WatchedStream(inferencer, [])
    stream.pause(True)
    stream.reset(3)
    stream.save(Path("there"))
    assert inferencer.asked == [("freeze", True), ("reset", 3), ("save", Path("there"))]
