import shutil

import cv2
import numpy as np
import pytest
from mmengine.dataset import ConcatDataset
from mmseg.datasets import BaseSegDataset
from torch.utils.data import DataLoader

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import ACDCDataset, UnlabeledImages
from mmseg_reservoir.seg.bad_images import CheckedDataset
from mmseg_reservoir.seg.datasets import label_names, make_labels_optional

PIPELINE = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="PackSegInputs"),
]


@pytest.fixture
def root(minicity, tmp_path):
    return shutil.copytree(minicity, tmp_path / "data")


def test_acdc_layout_is_sorted_and_labelled(root):
    dataset = ACDCDataset(data_root=str(root), condition="night", pipeline=PIPELINE)
    names = [dataset.get_data_info(i)["img_path"] for i in range(len(dataset))]
    assert len(names) == 3
    assert names == sorted(names)
    sample = dataset[0]
    assert sample["inputs"].shape == (3, 128, 256)
    labels = np.unique(sample["data_samples"].gt_sem_seg.data)
    assert set(labels) <= {*range(19), 255}
    assert dataset.metainfo["classes"][0] == "road"
    val = ACDCDataset(data_root=str(root), condition="night", split="val", pipeline=PIPELINE)
    assert len(val) == 1


def test_missing_folder_empty_folder_and_missing_label_are_explained(root):
    with pytest.raises(ReservoirError, match=r"no images .*rgb_anon/dusk/train.*must hold ACDC's"):
        ACDCDataset(data_root=str(root), condition="dusk")
    for image in root.glob("rgb_anon/fog/train/*/*.png"):
        image.unlink()
    with pytest.raises(ReservoirError, match=r"no images .*rgb_anon/fog/train"):
        ACDCDataset(data_root=str(root), condition="fog")
    label = next(root.glob("gt/rain/train/*/*.png"))
    label.unlink()
    with pytest.raises(ReservoirError, match=rf"1 of 3 images .*{label.name}"):
        ACDCDataset(data_root=str(root), condition="rain")


def test_without_minicity_the_error_names_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a checkout may have the data
    command = "reservoir minicity"
    made = rf"make it with: {command} data/minicity$"
    with pytest.raises(ReservoirError, match=rf"no images .*{made}"):
        ACDCDataset(data_root="data/minicity", condition="fog")
    with pytest.raises(ReservoirError, match=rf"0 source images .*{made}"):
        UnlabeledImages(data_root="data/minicity/rgb_anon/clear/train")
    with pytest.raises(ReservoirError) as told:
        ACDCDataset(data_root="data/acdc", condition="fog")
    assert command not in str(told.value)


def test_a_condition_without_any_label_is_read_without(root):
    shutil.rmtree(root / "gt" / "fog" / "train")
    dataset = ACDCDataset(data_root=str(root), condition="fog", pipeline=PIPELINE)
    assert len(dataset) == 3
    assert "gt_sem_seg" not in dataset[0]["data_samples"]
    assert "seg_map_path" not in dataset.get_data_info(0)


def plain(root, labels, **more):
    prefix = dict(img_path="rgb_anon/snow/train", seg_map_path=labels)
    options = dict(data_root=str(root), data_prefix=prefix, pipeline=PIPELINE, **more)
    suffixes = dict(img_suffix="_rgb_anon.png", seg_map_suffix="_gt_labelTrainIds.png")
    return BaseSegDataset(**suffixes, **options)


def test_labels_are_optional_in_a_dataset_of_mmsegs(root, capsys):
    labelled = plain(root, "gt/snow/train")
    make_labels_optional(labelled)
    assert "gt_sem_seg" in labelled[0]["data_samples"]
    assert not capsys.readouterr().out
    without = plain(root, "ann")
    with pytest.raises(FileNotFoundError):
        without[0]
    both = ConcatDataset([labelled, without])
    make_labels_optional(both)
    assert "they will not be scored" in capsys.readouterr().out
    assert "gt_sem_seg" in both[0]["data_samples"]
    assert "gt_sem_seg" not in both[3]["data_samples"]
    make_labels_optional(plain(root, "ann", backend_args=dict(backend="local")))  # not looked at
    make_labels_optional([1, 2])  # some other dataset
    prefix = dict(img_path="rgb_anon/snow/train", seg_map_path="rgb_anon/snow/train")
    beside = BaseSegDataset(
        data_root=str(root), data_prefix=prefix, img_suffix=".png", pipeline=PIPELINE
    )
    make_labels_optional(beside)  # its images are no labels
    assert "gt_sem_seg" not in beside[0]["data_samples"]


def test_no_two_images_share_the_name_of_a_prediction(root):
    assert all("/" not in name for name in label_names(plain(root, "ann")).values())
    (first, *_) = sorted((root / "rgb_anon/snow/train").rglob("*.png"))
    shutil.copytree(first.parent, root / "rgb_anon/snow/train/other")
    names = label_names(plain(root, "ann"))
    assert len(set(names.values())) == len(names) == 6
    assert names[str(first)] == f"{first.parent.name}/{first.stem}"


def test_a_missing_label_that_nobody_wants_is_not_blamed(root):
    dataset = plain(root, "ann")
    make_labels_optional(dataset)
    dataset.pipeline.transforms.insert(1, lambda results: 1 / 0)
    with pytest.raises(ReservoirError, match="ZeroDivisionError") as told:
        CheckedDataset(dataset)[0]
    assert "/ann/" not in str(told.value)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["rgb_anon", "gt"])
def test_a_damaged_file_is_named(root, workers, kind):
    broken = next(root.glob(f"{kind}/snow/train/*/*.png"))
    broken.write_bytes(b"no png")
    dataset = ACDCDataset(data_root=str(root), condition="snow", pipeline=PIPELINE, test_mode=True)
    loader = DataLoader(dataset, num_workers=workers, collate_fn=list)
    with pytest.raises(ReservoirError, match=rf"cannot read .*{broken.name}.*damaged"):
        list(loader)


def test_unlabelled_images_are_evenly_spaced(tmp_path):
    for i in range(10):
        cv2.imwrite(str(tmp_path / f"{i}_x.png"), np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "other.png").touch()
    dataset = UnlabeledImages(
        data_root=str(tmp_path), img_suffix="_x.png", num_images=4, pipeline=PIPELINE
    )
    names = [dataset.get_data_info(i)["img_path"][-7:] for i in range(len(dataset))]
    assert names == ["0_x.png", "3_x.png", "6_x.png", "9_x.png"]
    assert dataset[0]["inputs"].shape == (3, 4, 4)  # the step that loads labels is left out
    everything = UnlabeledImages(data_root=str(tmp_path), img_suffix="_x.png", num_images=99)
    assert len(everything) == 10


def test_too_few_source_images_are_explained(tmp_path):
    (tmp_path / "one.png").touch()
    with pytest.raises(ReservoirError, match=r"1 source images \*.png below .* needs 2 or more"):
        UnlabeledImages(data_root=str(tmp_path))
    with pytest.raises(ReservoirError, match=r"0 source images .*nowhere.*set source_images"):
        UnlabeledImages(data_root=str(tmp_path / "nowhere"))
    with pytest.raises(ReservoirError, match=r"whole number of at least 2, or None"):
        UnlabeledImages(data_root=str(tmp_path), num_images=0)
