"""Writing MiniCity: ACDC's layout, all or nothing, and no harm to what is there already."""

import json

import cv2
import numpy as np
import pytest
from disk_faults import FailingDisk

from mmseg_reservoir.errors import ReservoirError, WriteError
from mmseg_reservoir.minicity import frame_paths, make_counts, render_frame, write_dataset, writer

FEW = {"clear": {"train": 2}, "fog": {"val": 1}}


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data" / "minicity"


def test_layout_is_that_of_acdc(root):
    written = write_dataset(root, counts=FEW)
    assert not written.reused
    assert written.root == root.resolve()
    assert files(root) == [
        "gt/clear/train/GP010001/GP010001_frame_000001_gt_labelTrainIds.png",
        "gt/clear/train/GP010001/GP010001_frame_000002_gt_labelTrainIds.png",
        "gt/fog/val/GP025001/GP025001_frame_000001_gt_labelTrainIds.png",
        "minicity.json",
        "rgb_anon/clear/train/GP010001/GP010001_frame_000001_rgb_anon.png",
        "rgb_anon/clear/train/GP010001/GP010001_frame_000002_rgb_anon.png",
        "rgb_anon/fog/val/GP025001/GP025001_frame_000001_rgb_anon.png",
    ]


def test_sequences_hold_consecutive_frames(tmp_path):
    names = [frame_paths(tmp_path, "night", "val", index)[0].name for index in (0, 19, 20)]
    assert names == [
        "GP035001_frame_000001_rgb_anon.png",
        "GP035001_frame_000020_rgb_anon.png",
        "GP035002_frame_000001_rgb_anon.png",
    ]


def test_files_hold_what_was_rendered(root):
    write_dataset(root, seed=4, counts=FEW)
    rgb_path, label_path = frame_paths(root, "clear", "train", 1)
    frame = render_frame("clear", "train", 1, seed=4)
    assert np.array_equal(cv2.imread(str(rgb_path))[..., ::-1], frame.rgb)
    assert np.array_equal(cv2.imread(str(label_path), cv2.IMREAD_UNCHANGED), frame.label)


def test_manifest_and_checksum(root, tmp_path):
    first = write_dataset(root, counts=FEW)
    manifest = json.loads((root / "minicity.json").read_text())
    assert manifest["seed"] == 0
    assert manifest["version"] == writer.VERSION
    assert manifest["counts"] == {"clear": {"train": 2, "val": 0}, "fog": {"train": 0, "val": 1}}
    assert manifest["sha256"] == first.sha256
    assert write_dataset(tmp_path / "again", counts=FEW).sha256 == first.sha256
    assert write_dataset(tmp_path / "other", seed=1, counts=FEW).sha256 != first.sha256


def test_default_counts_cover_all_conditions():
    counts = make_counts()
    assert counts["clear"] == {"train": 800, "val": 100}
    assert set(counts) == {"clear", "fog", "night", "rain", "snow"}


def test_same_data_set_is_reused(root, monkeypatch):
    first = write_dataset(root, counts=FEW)
    monkeypatch.setattr(writer, "render_frame", None)  # nothing may be rendered again
    second = write_dataset(root, counts=FEW)
    assert second.reused
    assert second.sha256 == first.sha256


@pytest.mark.parametrize("change", [{"seed": 1}, {"counts": {"clear": {"train": 1}}}])
def test_another_data_set_needs_overwrite(root, change):
    write_dataset(root, counts=FEW)
    arguments = {"counts": FEW} | change
    with pytest.raises(ReservoirError, match=r"minicity.*--overwrite"):
        write_dataset(root, **arguments)
    assert not write_dataset(root, **arguments, overwrite=True).reused
    assert write_dataset(root, **arguments).reused


def test_lost_files_are_noticed(root):
    write_dataset(root, counts=FEW)
    frame_paths(root, "clear", "train", 0)[1].unlink()
    with pytest.raises(ReservoirError, match="damaged: 1 files are missing"):
        write_dataset(root, counts=FEW)


def fail_at_second_frame(monkeypatch, error):
    def render(condition, split, index, seed):
        if index == 1:
            raise error
        return render_frame(condition, split, index, seed)

    monkeypatch.setattr(writer, "render_frame", render)


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
def test_nothing_half_written_remains(root, monkeypatch, error):
    fail_at_second_frame(monkeypatch, error)
    with pytest.raises(type(error)):
        write_dataset(root, counts=FEW)
    assert list(root.parent.iterdir()) == []


def test_failed_overwrite_keeps_the_old_data_set(root, monkeypatch):
    write_dataset(root, counts=FEW)
    before = files(root)
    fail_at_second_frame(monkeypatch, RuntimeError("broken"))
    with pytest.raises(RuntimeError):
        write_dataset(root, seed=1, counts=FEW, overwrite=True)
    assert files(root) == before
    assert list(root.parent.iterdir()) == [root]


def test_failed_last_step_brings_the_old_data_set_back(root, monkeypatch):
    write_dataset(root, counts=FEW)
    before = files(root)
    rename = type(root).rename

    def fail_for_new(path, target):
        if path.name == "new":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(type(root), "rename", fail_for_new)
    with pytest.raises(OSError, match="no"):
        write_dataset(root, seed=1, counts=FEW, overwrite=True)
    assert files(root) == before


def test_unwritable_picture_is_an_error(root):
    root.parent.mkdir(parents=True, exist_ok=True)
    with (
        FailingDisk(root.parent, r"write .*\.png").mounted(),
        pytest.raises(WriteError, match=r"cannot write .*\.png \(No space left on device\): free"),
    ):
        write_dataset(root, counts=FEW)
    assert list(root.parent.iterdir()) == []


@pytest.mark.parametrize("manifest", [None, "{}", "no json", '{"generator": "else"}', "[]"])
def test_foreign_folders_are_never_touched(root, manifest):
    root.mkdir(parents=True)
    (root / "thesis.txt").write_text("ten years of work")
    if manifest is not None:
        (root / "minicity.json").write_text(manifest)
    for overwrite in (False, True):
        with pytest.raises(ReservoirError, match="not a MiniCity data set"):
            write_dataset(root, counts=FEW, overwrite=overwrite)
    assert (root / "thesis.txt").read_text() == "ten years of work"


def test_an_empty_folder_may_be_filled(root):
    root.mkdir(parents=True)
    assert not write_dataset(root, counts=FEW).reused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"counts": {"hail": {"val": 1}}}, "unknown condition 'hail'"),
        ({"counts": {"fog": {"test": 1}}}, "unknown split 'test'"),
        ({"counts": {"fog": {"val": -1}}}, "number of fog val pictures must be 0 or more, got -1"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
    ],
)
def test_invalid_arguments_are_explained(root, arguments, message):
    with pytest.raises(ReservoirError, match=message):
        write_dataset(root, **arguments)
    assert not root.parent.exists()


def test_workers_write_the_same_files(root, tmp_path):
    alone, together = (
        write_dataset(root, counts=FEW),
        write_dataset(tmp_path / "b", counts=FEW, workers=2),
    )
    assert together.sha256 == alone.sha256
    assert files(together.root) == files(root)
