"""A stream that is killed, resumed, stopped, and short of room; with a model that counts."""

import json
import os
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from file_size import limited
from small_outcomes import make_outcome

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import FrameResult, frame_writer
from mmseg_reservoir.footage.footage_run import FootageRun, LiveFootage
from mmseg_reservoir.footage.frame_writer import count_frames
from mmseg_reservoir.footage.frames import Pictures
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.live import StreamInfo
from mmseg_reservoir.seg import label_images

FRAMES = [np.full((16, 32, 3), 10 * n, np.uint8) for n in range(7)]


class Killed(BaseException):
    """What no handler of errors sees."""


class Counter:
    """A pipeline whose state is the sum of what it saw, and of random numbers."""

    def __init__(self):
        self.total = torch.zeros(())

    def state_dict(self):
        return {"total": self.total.clone()}

    def load_state_dict(self, state):
        self.total = state["total"]


class Inferencer:
    """As much of a ``ReservoirInferencer`` as a run needs."""

    has_reservoir = True

    def __init__(self, options="tent", die_at=None):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(1, 1)
        torch.manual_seed(0)
        self.model.pipeline = Counter()
        self.plan = SimpleNamespace(options={"method": options})
        self.dataset_meta = {"classes": ["road", "car"], "palette": [[0, 0, 0], [200, 100, 0]]}
        self.die_at = die_at
        self.seen = []

    def segment(self, frame):
        if frame.index == self.die_at:
            raise Killed
        self.seen.append(frame.index)
        pipeline = self.model.pipeline
        pipeline.total += float(frame.image[0, 0, 0]) + torch.rand(())
        labels = np.full(frame.image.shape[:2], int(pipeline.total) % 2, np.uint8)
        outcome = make_outcome(expert=int(pipeline.total) % 2, k=2, seconds=0.0)
        confidence = np.ones(labels.shape, np.float32)
        return FrameResult(frame.name, frame.index, frame.image, labels, confidence, outcome)

    def expert_state(self, expert):
        return {"alarms": expert}

    def freeze(self, frozen):
        self.seen.append(("freeze", frozen))

    def reset(self, expert):
        self.seen.append(("reset", expert))

    def save(self, folder):
        return write_text(folder / "total", repr(float(self.model.pipeline.total))).parent


def run(folder, die_at=None, frames=FRAMES, options="tent", **more):
    """Run to the end or the death; returns the inferencer."""
    inferencer = Inferencer(options, die_at)
    more = {"save_every": 2, "segment": 4, "labels": "trainids", **more}
    try:
        with FootageRun(inferencer, Pictures(frames, name="drive"), folder, **more) as stream:
            list(stream)
            assert stream.complete
            assert stream.count == len(frames)
    except Killed:
        pass
    return inferencer


def contents(folder):
    """All files but states, whose names and sizes depend on when they were saved."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if path.parent.name != "state"
    }


def lengths(folder):
    return [count_frames(path) for path in sorted((folder / "overlay").iterdir())]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return folder


@pytest.mark.parametrize("die_at", [0, 1, 2, 5, 6])
def test_what_was_killed_ends_with_the_same_files(whole, tmp_path, die_at):
    folder = tmp_path / "out"
    run(folder, die_at)
    again = run(folder, resume=True)
    assert again.seen == list(range(die_at - die_at % 2, len(FRAMES)))
    assert contents(folder) == contents(whole)


def test_a_kill_leaves_an_open_video_that_is_made_again(whole, tmp_path):
    run(tmp_path, die_at=5)
    (tmp_path / "overlay" / "segment_00003.partial.mp4").write_bytes(b"cut")
    with (tmp_path / "stream.jsonl").open("a") as lines:
        lines.write('{"name": "drive_0')  # half a line
    run(tmp_path, resume=True)
    assert contents(tmp_path) == contents(whole)


def test_a_state_ends_a_video_file(whole):
    assert lengths(whole) == [2, 2, 2, 1]


def test_at_the_end_all_is_final_before_the_run_is_left(tmp_path):
    inferencer = Inferencer()
    frames = Pictures(FRAMES, name="drive")
    with FootageRun(inferencer, frames, tmp_path, segment=4) as stream:
        list(stream)
        assert lengths(tmp_path) == [4, 3]
        assert (tmp_path / "reservoir" / "total").is_file()
        assert sorted(path.name for path in (tmp_path / "state").iterdir())[1:] == [
            "0000000007.safetensors",
            "newest",
        ]


def test_a_finished_run_has_nothing_left_but_new_frames(whole, tmp_path):
    run(tmp_path, frames=FRAMES[:5])
    before = contents(tmp_path)
    assert run(tmp_path, frames=FRAMES[:5], resume=True).seen == []
    assert contents(tmp_path) == before
    assert run(tmp_path, resume=True).seen == [5, 6]
    lines = [json.loads(line) for line in (tmp_path / "stream.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(7))


def test_without_anything_to_resume_it_begins(tmp_path):
    assert run(tmp_path / "new", resume=True).seen == list(range(7))


def test_the_state_of_another_run_is_refused(tmp_path):
    run(tmp_path, die_at=3)
    before = contents(tmp_path)
    with pytest.raises(
        ReservoirError, match=r"options\.method was 'tent', is 'eata'.*another --out"
    ):
        run(tmp_path, options="eata", resume=True)
    with pytest.raises(ReservoirError, match="holds a stream already"):
        run(tmp_path)
    assert contents(tmp_path) == before


def test_a_stream_without_a_state_is_not_removed(tmp_path):
    (tmp_path / "stream.jsonl").write_text("{}\n")
    with pytest.raises(ReservoirError, match="a stream without a saved state: choose another --o"):
        run(tmp_path, resume=True)
    assert (tmp_path / "stream.jsonl").read_text() == "{}\n"


def test_a_mistake_at_the_first_frame_leaves_no_folder(tmp_path):
    run(tmp_path / "out", die_at=0)
    assert not (tmp_path / "out").exists()


def test_the_folder_belongs_to_the_process(tmp_path):
    with FootageRun(Inferencer(), Pictures(FRAMES, name="drive"), tmp_path) as stream:
        next(iter(stream))
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_state_that_finds_no_room_names_folder_and_remedy(whole, tmp_path):
    class Large(Inferencer):
        def save(self, folder):
            with limited(1000):
                return write_text(folder / "total", "x" * 2000)

    with (
        pytest.raises(ReservoirError, match=rf"cannot save .* frame 2 in {tmp_path} .*--resume"),
        FootageRun(Large(), Pictures(FRAMES, name="drive"), tmp_path, save_every=2) as stream,
    ):
        list(stream)
    assert lengths(tmp_path) == [2]
    run(tmp_path, resume=True, segment=300, labels=None)
    assert lengths(tmp_path) == [2, 2, 2, 1]


def test_the_live_page_gets_the_frames_of_a_run(tmp_path):
    with FootageRun(Inferencer(), Pictures(FRAMES, name="drive", every=3), tmp_path) as footage:
        stream = LiveFootage(footage, footage)
        classes = {"road": [0, 0, 0], "car": [200, 100, 0]}
        assert stream.info == StreamInfo("drive", 3, classes)  # frames 0, 3 and 6
        frames = list(stream)
    assert [frame.number for frame in frames] == [1, 2, 3]
    for frame in frames:
        assert (frame.k, frame.opened, frame.confidence) == (2, False, 1.0)
        assert frame.state == {"alarms": frame.expert}
        assert frame.image.shape == frame.overlay.shape == (16, 32, 3)
    first, _, last = frames
    assert first.image[0, 0].tolist() == [0, 0, 0]
    assert last.image[0, 0].tolist() == [60, 60, 60]


@pytest.mark.parametrize("shown", ["frames", "none"])
def test_an_overlay_is_drawn_once_for_files_and_page(tmp_path, monkeypatch, shown):
    drawn = []

    def overlay(image, label, palette):
        drawn.append(image)
        return label_images.overlay(image, label, palette)

    monkeypatch.setattr(frame_writer, "overlay", overlay)
    with FootageRun(Inferencer(), Pictures(FRAMES[:2], name="d"), tmp_path, shown=shown) as footage:
        frames = list(LiveFootage(footage, footage))
    assert len(drawn) == 2
    if shown == "frames":
        for path, live in zip(sorted((tmp_path / "overlay").iterdir()), frames, strict=True):
            np.testing.assert_array_equal(live.overlay, cv2.imread(str(path)))


def test_what_a_viewer_asks_for_is_done_by_the_inferencer(tmp_path):
    inferencer, frames = Inferencer(), Pictures(FRAMES, name="drive")
    stream = LiveFootage(FootageRun(inferencer, frames, tmp_path), [])
    stream.pause(True)
    stream.reset(3)
    stream.save(tmp_path / "there")
    stream.stop()
    assert frames.stopping.is_set()
    assert inferencer.seen == [("freeze", True), ("reset", 3)]
    assert (tmp_path / "there" / "total").is_file()
