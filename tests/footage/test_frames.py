import shutil

import numpy as np
import pytest
import torch
from image_files import write_image
from PIL import Image

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage.frames import open_frames


def names(source, every=1):
    return [frame.name for frame in open_frames(source, every)]


@pytest.fixture
def folder(tmp_path):
    for number in (1, 2, 10):
        write_image(tmp_path / "in" / f"frame{number}.png", number)
    write_image(tmp_path / "in" / "b" / "frame3.JPG", 30)
    (tmp_path / "in" / "notes.txt").touch()
    return tmp_path / "in"


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


RED = np.zeros((2, 3, 3), np.uint8)
RED[..., 2] = 255  # BGR


@pytest.mark.parametrize(
    "red",
    [
        Image.fromarray(RED[..., ::-1]),
        Image.fromarray(RED[..., ::-1]).convert("P"),
        torch.tensor([255, 0, 0], dtype=torch.uint8)[:, None, None].expand(3, 2, 3),
        torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(3, 2, 3).requires_grad_(),
        torch.tensor([1.0, 0.0, 0.0], dtype=torch.bfloat16)[:, None, None].expand(3, 2, 3),
    ],
    ids=["PIL", "PIL palette", "uint8", "float", "bfloat16"],
)
def test_images_in_memory(red):
    for source in (red, [red], iter([red])):
        (frame,) = open_frames(source)
        np.testing.assert_array_equal(frame.image, RED)
        assert frame.image.flags.c_contiguous
        assert frame.name == "frames_000000"


def test_batches_are_their_frames():
    assert names(torch.zeros(3, 3, 4, 6)) == [f"frames_{i:06d}" for i in range(3)]
    assert names(np.zeros((2, 4, 6, 3), np.uint8)) == [f"frames_{i:06d}" for i in range(2)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.zeros(1, 4, 6), r"RGB tensor \(3, H, W\).*got \(1, 4, 6\)"),
        (torch.zeros(3, 4, 6, dtype=torch.int64), "uint8 or floating point, got.*int64"),
        (torch.full((3, 4, 6), 2.5), r"must lie in \[0, 1\], got 2.5 to 2.5: undo"),
        (torch.full((3, 4, 6), torch.nan), r"must lie in \[0, 1\], got nan"),
        ([None], "a frame cannot be a NoneType: give an image"),
        ({"image": 1}, "cannot be read from a dict: give an image"),
        ([0, 1], "camera0 never ends: give it alone"),
    ],
)
def test_what_is_no_frame_is_explained(wrong, message):
    with pytest.raises(ReservoirError, match=message):
        names(wrong)


def test_a_generator_is_read_frame_by_frame(folder):
    taken = []

    def images():
        for item in (folder / "frame1.png", RED, folder / "b" / "frame3.JPG", RED):
            taken.append(item)
            yield item

    source = open_frames(images())
    assert source.total is None
    stream = iter(source)
    assert next(stream).name == "frame1_000000"
    assert len(taken) == 1
    assert [f.name for f in stream] == ["frames_000001", "frame3_000002", "frames_000003"]
    assert [f.index for f in open_frames(images(), every=3)] == [0, 3]


def test_no_two_frames_share_a_name(folder):
    write_image(folder / "frame1.jpg", 50)
    write_image(folder / "frame2_rgb_anon.png", 60)  # whose label would be that of frame2
    write_image(folder / "frame10.png.png", 70)
    assert names(folder) == [
        "b/frame3",
        "frame1.jpg",
        "frame1.png",
        "frame2.png",
        "frame2_rgb_anon.png",
        "frame10",
        "frame10.png",
    ]
    write_image(folder / "frame10.jpg", 80)  # now frame10.png would be a name of two
    found = names(folder)
    assert len(set(found)) == len(found) == 8
    twice = [folder / "frame1.png", folder / "frame1.png", folder / "b" / "frame3.JPG"]
    assert names(twice) == ["frame1.png", "frame1.png_2", "b/frame3"]


def test_several_inputs_come_one_after_the_other(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "out" / "in")
    source = open_frames([folder / "b", tmp_path / "out" / "in", folder / "frame*.png"], every=2)
    assert source.total == 1 + 2 + 2
    found = list(source)
    assert [f.name for f in found] == [
        "b/frame3",
        "in/b/frame3",
        "in/frame2",
        "frames/frame1",
        "frames/frame10",
    ]
    assert [f.index for f in found] == [0, 1, 3, 4, 6]
    (folder / "frame1.png").write_bytes(b"no png")
    twice = open_frames([folder, folder])
    assert [f.name for f in twice] == [
        f"{name}/{frame}" for name in ("in", "in_2") for frame in ("b/frame3", "frame2", "frame10")
    ]
    assert twice.broken == 2


def test_each_nth_frame(folder):
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
