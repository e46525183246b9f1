import json
from dataclasses import replace

import cv2
import numpy as np
import pytest
from file_size import limited
from mmengine.registry import init_default_scope
from small_outcomes import make_outcome

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage import FrameResult, frame_writer, video_codec
from mmseg_reservoir.footage.frame_writer import FrameWriter, count_frames
from mmseg_reservoir.seg import ACDCDataset
from mmseg_reservoir.seg.label_images import draw_key, overlay

CLASSES, PALETTE = (ACDCDataset.METAINFO[key] for key in ("classes", "palette"))
PIPELINE = [dict(type=name) for name in ("LoadImageFromFile", "LoadAnnotations", "PackSegInputs")]


def result(index=0, size=(16, 32), name=None):
    """The left half is road, of which the model is sure, the right half a car, of which not."""
    labels = np.zeros(size, np.uint8)
    labels[:, size[1] // 2 :] = 13
    return FrameResult(
        name=name or f"drive_{index:06d}",
        index=index,
        image=np.full((*size, 3), 100, np.uint8),
        labels=labels,
        confidence=np.where(labels == 0, 0.9, 0.4).astype(np.float32),
        outcome=make_outcome(expert=index % 2, k=2, opened=index == 1, seconds=0.5),
    )


def write(folder, results, **options):
    with FrameWriter(folder, "drive", PALETTE, CLASSES, **options) as writer:
        for one in results:
            writer.write(one)
    return folder


def length(path):
    capture = cv2.VideoCapture(str(path))
    count = 0
    while capture.read()[0]:
        count += 1
    return count


def test_a_line_per_frame_is_there_at_once(tmp_path):
    writer = FrameWriter(tmp_path, "drive", PALETTE, shown="none")
    for index in range(2):
        writer.write(result(index), dropped=index)
        lines = [json.loads(x) for x in (tmp_path / "stream.jsonl").read_text().splitlines()]
        assert len(lines) == index + 1
    assert lines[1] == {
        "name": "drive_000001",
        "index": 1,
        "expert": 1,
        "k": 2,
        "opened": True,
        "weight": 1.0,
        "seconds": 0.5,
        "mean_confidence": pytest.approx(0.65),
        "below_confidence": 0.0,
        "dropped": 1,
    }


def test_a_segment_gets_its_name_when_it_is_whole(tmp_path):
    writer = FrameWriter(tmp_path, "drive", PALETTE, segment=3)
    for index in range(7):
        writer.write(result(index))
    files = sorted(path.name for path in (tmp_path / "overlay").iterdir())
    wanted = ["segment_00000.mp4", "segment_00001.mp4", "segment_00002.partial.mp4"]
    assert files == wanted
    assert [length(tmp_path / "overlay" / name) for name in wanted[:2]] == [3, 3]
    writer.close()
    assert length(tmp_path / "overlay" / "segment_00002.mp4") == 1
    assert not list((tmp_path / "overlay").glob("*.partial.mp4"))


def test_frames_of_another_size_begin_another_file(tmp_path):
    write(tmp_path, [result(0), result(1, size=(32, 64)), result(2, size=(32, 64))])
    assert [length(p) for p in sorted((tmp_path / "overlay").iterdir())] == [1, 2]


def noise(index):
    size = (256, 512)
    pixels = np.random.default_rng(index).integers(0, 256, (*size, 3)).astype(np.uint8)
    return replace(result(index, size), image=pixels)


def test_a_video_that_found_no_room_does_not_get_its_name(tmp_path):
    write(tmp_path, [result(index) for index in range(3)])
    videos = tmp_path / "overlay"
    message = rf"{videos}/segment_00001\.partial\.mp4 is damaged \(\d of 2 frames .*make room"
    with limited(20_000), pytest.raises(ReservoirError, match=message):
        write(tmp_path, [noise(3), noise(4)], lines=3, segments=1)
    assert count_frames(videos / "segment_00000.mp4") == 3
    assert not (videos / "segment_00001.mp4").exists()


def test_the_error_that_ends_a_run_is_the_first_one(tmp_path, monkeypatch, caplog):
    def frames():
        yield result()
        raise ReservoirError("the first")

    monkeypatch.setattr(frame_writer, "count_frames", lambda path: 0)
    with pytest.raises(ReservoirError, match="the first"):
        write(tmp_path / "a", frames())
    assert "segment_00000.partial.mp4 is damaged (0 of 1 frames decode)" in caplog.text
    with pytest.raises(ReservoirError, match="is damaged"):
        write(tmp_path / "b", [result()])


def test_overlays_as_frames(tmp_path):
    one = result(name="b/frame1")
    write(tmp_path, [one], shown="frames")
    shown = cv2.imread(str(tmp_path / "overlay" / "b" / "frame1.png"))
    np.testing.assert_array_equal(shown, overlay(one.image, one.labels, PALETTE))


@pytest.mark.parametrize("shown", ["video", "frames"])
def test_an_overlay_names_expert_k_and_classes(tmp_path, shown):
    one = result(3, size=(180, 320))
    write(tmp_path, [one], shown=shown)
    (file,) = (tmp_path / "overlay").iterdir()
    capture = cv2.VideoCapture(str(file))
    seen = (capture.read()[1] if shown == "video" else cv2.imread(str(file))).astype(int)
    plain = overlay(one.image, one.labels, PALETTE)
    wanted = draw_key(plain, one.labels, CLASSES, PALETTE, expert=1, k=2)
    assert not np.array_equal(wanted, plain)
    assert np.abs(seen - wanted).mean() < (3 if shown == "video" else 0.01)
    assert np.abs(seen - plain)[:40, :60].mean() > 20


def written_codec(folder):
    (file,) = (folder / "overlay").iterdir()
    code = int(cv2.VideoCapture(str(file)).get(cv2.CAP_PROP_FOURCC))
    return code.to_bytes(4, "little").decode()


@pytest.fixture
def fresh_probe():
    video_codec.find_codec.cache_clear()
    yield
    video_codec.find_codec.cache_clear()


def test_browsers_play_the_video_where_opencv_can_write_it(tmp_path, fresh_probe, caplog):
    write(tmp_path, [result()])
    codecs = video_codec.BROWSER_CODECS
    if any(map(video_codec.can_write, codecs)):
        assert written_codec(tmp_path) in ("VP90", "vp09", "avc1", "h264")
        assert not caplog.records
    else:
        assert "browsers do not" in caplog.text


def test_without_such_a_codec_a_line_says_so(tmp_path, fresh_probe, monkeypatch, caplog):
    monkeypatch.setattr(video_codec, "BROWSER_CODECS", ("none",))
    write(tmp_path / "a", [result()])
    write(tmp_path / "b", [result()])
    assert written_codec(tmp_path / "a") in ("mp4v", "FMP4")
    assert [r.getMessage() for r in caplog.records] == [
        "this OpenCV writes neither VP9 nor H.264: players show the videos, browsers do not"
    ]


def test_a_codec_may_be_named(tmp_path):
    write(tmp_path, [result()], codec="mp4v")
    assert written_codec(tmp_path) in ("mp4v", "FMP4")
    with pytest.raises(ReservoirError, match=r"cannot write \.mp4 with the codec 'none'"):
        write(tmp_path / "none", [result()], codec="none")


def test_ids_of_cityscapes_are_for_its_classes(tmp_path):
    for classes, told in ((CLASSES[:5], "5 other classes"), (None, "unknown classes")):
        with pytest.raises(ReservoirError, match=f"the model has {told}: write 'trainids'"):
            FrameWriter(tmp_path, "drive", PALETTE, classes, labels="labelids")
    assert not list(tmp_path.iterdir())
    for kind in ("trainids", "colors"):
        FrameWriter(tmp_path, "drive", PALETTE[:5], CLASSES[:5], labels=kind)


@pytest.mark.parametrize(
    ("kind", "suffix", "road", "car"),
    [("trainids", "labelTrainIds", 0, 13), ("labelids", "labelIds", 7, 26)],
)
@pytest.mark.parametrize("least", [0.0, 0.5])
def test_labels_below_the_confidence_are_255(tmp_path, kind, suffix, road, car, least):
    write(tmp_path, [result()], shown="none", labels=kind, min_confidence=least)
    path = tmp_path / "gt" / "footage" / "train" / "drive" / f"drive_000000_gt_{suffix}.png"
    label = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert label.shape == (16, 32)
    assert label[0, 0] == road
    assert label[0, -1] == (255 if least else car)
    line = json.loads((tmp_path / "stream.jsonl").read_text())
    assert line["below_confidence"] == (0.5 if least else 0.0)


@pytest.mark.parametrize("labels", ["colors", "colours"])
def test_labels_in_colors(tmp_path, labels):
    write(tmp_path, [result()], shown="none", labels=labels, min_confidence=0.5)
    label = cv2.imread(str(next(tmp_path.rglob("*_gt_labelColor.png"))))
    assert label[0, 0].tolist() == [128, 64, 128]
    assert label[0, -1].tolist() == [0, 0, 0]


def test_acdcs_dataset_reads_what_was_written(tmp_path):
    init_default_scope("mmseg")  # which a runner sets from its config
    frames = [result(0), result(1, name="GP01_frame_000002_rgb_anon"), result(2, name="b/frame3")]
    write(tmp_path, frames, shown="none", labels="trainids", min_confidence=0.5)
    dataset = ACDCDataset(data_root=str(tmp_path), condition="footage", pipeline=PIPELINE)
    assert len(dataset) == 3
    for index in range(3):
        sample = dataset[index]
        assert sample["inputs"].unique().tolist() == [100]
        assert sample["data_samples"].gt_sem_seg.data.unique().tolist() == [0, 255]


def test_maps_of_confidence(tmp_path):
    write(tmp_path, [result()], shown="none", confidence=True)
    values = cv2.imread(str(tmp_path / "confidence" / "drive_000000.png"), cv2.IMREAD_UNCHANGED)
    assert np.unique(values).tolist() == [102, 230]


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ReservoirError, match=r"min_confidence must lie in \[0, 1\], got 50"):
        FrameWriter(tmp_path, "drive", PALETTE, min_confidence=50)
    with pytest.raises(ReservoirError, match="segment must have 1 or more frames, got 0"):
        FrameWriter(tmp_path, "drive", PALETTE, segment=0)
    write(tmp_path, [result()])
    with pytest.raises(ReservoirError, match="holds a stream already"):
        FrameWriter(tmp_path, "drive", PALETTE)


def test_a_frame_too_small_for_a_video_does_not_end_the_run(tmp_path, caplog):
    write(tmp_path, [result(0), result(1, size=(1, 1)), result(2)])
    assert len((tmp_path / "stream.jsonl").read_text().splitlines()) == 3
    assert sum(map(length, (tmp_path / "overlay").glob("segment_*.mp4"))) == 2
    assert "a frame of 1x1 is too small for a video" in caplog.text
