import pickle
import shutil

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import ACDCDataset, bad_images
from mmseg_reservoir.seg.bad_images import BadImage, CheckedDataset, check_sizes, collate_good

PIPELINE = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="PackSegInputs"),
]


@pytest.fixture
def root(minicity, tmp_path):
    return shutil.copytree(minicity, tmp_path / "data")


def checked(root, skip=False):
    dataset = ACDCDataset(data_root=str(root), condition="fog", pipeline=PIPELINE, test_mode=True)
    return CheckedDataset(dataset, skip)


def first(root, kind):
    return min(root.glob(f"{kind}/fog/train/*/*.png"))


def write(path, pixels):
    assert cv2.imwrite(str(path), pixels)


def break_file(path, how):
    content, pixels = path.read_bytes(), cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "text":
        path.write_bytes(b"no png")
    elif how == "1x1":
        write(path, pixels[:1, :1])
    elif how == "colour":
        write(path, cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR))
    elif how == "16 bits":
        write(path, pixels.astype(np.uint16) * 256)
    elif how == "other size":
        write(path, pixels[:100, :200])


FAULTS = [
    ("rgb_anon", "empty", "which is empty (0 bytes)"),
    ("rgb_anon", "truncated", "which is truncated or damaged"),
    ("rgb_anon", "text", "which is no .png file"),
    ("rgb_anon", "1x1", "is only 1x1 pixels"),
    ("rgb_anon", "16 bits", "has 16 bits per channel"),
    ("gt", "empty", "which is empty (0 bytes)"),
    ("gt", "truncated", "which is truncated or damaged"),
    ("gt", "1x1", "is 1x1, its image"),
    ("gt", "colour", "is in color (128x256x3)"),
    ("gt", "16 bits", "has 16 bits per pixel"),
    ("gt", "other size", "is 100x200, its image"),
]


@pytest.mark.filterwarnings("ignore:Please pay attention your ground truth")
@pytest.mark.parametrize(("kind", "how", "cause"), FAULTS)
def test_a_bad_image_is_reported_with_path_and_cause_or_skipped(root, kind, how, cause):
    path = first(root, kind)
    break_file(path, how)
    with pytest.raises(ReservoirError) as error:
        checked(root)[0]
    other = first(root, "gt" if kind == "rgb_anon" else "rgb_anon")
    text = str(error.value)
    assert str(path) in text
    assert cause in text
    assert "same size" in text or str(other) not in text  # only the one at fault is named
    assert "\n" not in text
    bad = checked(root, skip=True)[0]
    assert bad == BadImage(str(first(root, "rgb_anon")), text)
    assert not isinstance(checked(root, skip=True)[1], BadImage)


@pytest.mark.parametrize("workers", [0, 1])
def test_bad_images_travel_beside_the_batch(root, workers):
    break_file(first(root, "rgb_anon"), "empty")
    loader = DataLoader(
        checked(root, skip=True), batch_size=2, num_workers=workers, collate_fn=collate_good
    )
    (one, bad), (rest, none) = loader
    assert [len(one["inputs"]), len(rest["inputs"])] == [1, 1]
    assert [b.image for b in bad] == [str(first(root, "rgb_anon"))]
    assert none == []
    assert collate_good(bad) == (None, bad)


@pytest.mark.parametrize("workers", [0, 1])
def test_good_files_are_examined_once_in_a_run(root, workers, monkeypatch):
    dataset, opened = checked(root), torch.zeros(1).share_memory_()
    plain = bad_images._bits
    monkeypatch.setattr(bad_images, "_bits", lambda path: opened.add_(1) and plain(path))
    loader = DataLoader(dataset, num_workers=workers, collate_fn=collate_good)
    for _ in range(3):  # visits, each with new workers
        assert len(list(loader)) == 3
    assert opened.item() == 2 * 3


def test_a_bad_file_is_bad_at_every_visit(root):
    break_file(first(root, "rgb_anon"), "16 bits")
    dataset = checked(root, skip=True)
    for _ in range(2):
        assert [isinstance(dataset[i], BadImage) for i in range(3)] == [True, False, False]


def test_in_all_else_it_is_the_dataset(root):
    dataset = checked(root)
    assert len(dataset) == 3
    assert dataset.metainfo["classes"][0] == "road"
    assert pickle.loads(pickle.dumps(dataset)).get_data_info(0) == dataset.get_data_info(0)
    assert CheckedDataset([("fog", 1)])[0] == ("fog", 1)  # of other samples nothing is asked


def test_an_error_of_another_dataset_is_explained_too(root):
    class Other:
        def __len__(self):
            return 1

        def get_data_info(self, index):
            return {"img_path": str(first(root, "rgb_anon"))}

        def __getitem__(self, index):
            raise RuntimeError("first\nsecond")

    with pytest.raises(ReservoirError, match=r"cannot read .* \(RuntimeError: first second\)"):
        CheckedDataset(Other())[0]


def test_a_batch_of_different_sizes_is_refused():
    images = [torch.zeros(3, 4, 6), torch.zeros(3, 4, 8)]
    check_sizes(images[:1] * 2)
    with pytest.raises(ReservoirError, match=r"\(4x6, 4x8\): set test_dataloader.batch_size=1"):
        check_sizes(images)
