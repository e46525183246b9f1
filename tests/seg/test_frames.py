import numpy as np
import pytest
from image_files import write_image

from mmseg_reservoir.errors import ReservoirError
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
