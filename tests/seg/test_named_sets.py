import numpy as np
import pytest
from image_files import write_image
from mmengine.registry import DATASETS, init_default_scope
from PIL import Image

from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check.survey import list_files
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.named_sets import NAMED_SETS, dataset_of, domains_by_name

PIPELINE = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="PackSegInputs"),
]
FILES = {
    "cityscapes_val": (
        "leftImg8bit/val/ulm/ulm_000000_000019_leftImg8bit.png",
        "gtFine/val/ulm/ulm_000000_000019_gtFine_labelTrainIds.png",
    ),
    "dark_zurich": (
        "rgb_anon/val/night/GOPR0356/GOPR0356_frame_000321_rgb_anon.png",
        "gt/val/night/GOPR0356/GOPR0356_frame_000321_gt_labelTrainIds.png",
    ),
    "foggy_cityscapes": (
        "leftImg8bit_foggy/val/ulm/ulm_000000_000019_leftImg8bit_foggy_beta_0.02.png",
        "gtFine/val/ulm/ulm_000000_000019_gtFine_labelTrainIds.png",
    ),
    "bdd100k": ("images/10k/val/7d06fefd.jpg", "labels/sem_seg/masks/val/7d06fefd.png"),
    "shift": (
        "discrete/images/val/front/img/007b-4e72/00000000_img_front.jpg",
        "discrete/images/val/front/semseg/007b-4e72/00000000_semseg_front.png",
    ),
}


def write_set(root, name, ids):
    image, label = (root / path for path in FILES[name])
    write_image(image, 100)
    label.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(ids, np.uint8)).save(label)


def build(options):
    init_default_scope("mmseg")
    return DATASETS.build(options)


@pytest.mark.parametrize("name", [name for name in NAMED_SETS if name != "shift"])
def test_a_named_set_is_read_in_the_folders_that_it_comes_in(tmp_path, name):
    write_set(tmp_path, name, np.full((8, 8), 13))
    usual = dict(type="ACDCDataset", data_root="x", condition="fog", pipeline=PIPELINE)
    dataset = build(dataset_of(dict(name="n", set=name, data_root=str(tmp_path)), usual))
    assert len(dataset) == 1
    sample = dataset[0]
    assert (sample["data_samples"].gt_sem_seg.data == 13).all()
    assert dataset.metainfo["classes"][13] == "car"
    layout = LAYOUTS["cityscapes" if name == "cityscapes_val" else name]
    paired = {files.cell.split: files.pairs for files in list_files(layout, tmp_path).cells}
    assert len(paired["val"]) == 1  # the checker finds the same


def test_shift_has_ids_of_its_own_and_weather_by_sequence(tmp_path):
    ids = np.zeros((8, 8, 4), np.uint8)
    ids[:4, :, 0] = 10  # a vehicle, in the first of four channels
    write_set(tmp_path, "shift", ids)
    options = dict(name="n", set="shift", data_root=str(tmp_path))
    dataset = build(dataset_of(options, dict(pipeline=PIPELINE)))
    label = dataset[0]["data_samples"].gt_sem_seg.data[0]
    assert (label[:4] == 13).all()
    assert (label[4:] == 255).all()
    assert len(list_files(LAYOUTS["shift"], tmp_path).cells[1].images) == 1
    usual = dict(pipeline=PIPELINE)
    with pytest.raises(ReservoirError, match=r"no .*seq\.csv"):
        build(dataset_of({**options, "weather": "foggy"}, usual))
    table = tmp_path / "discrete/images/val/front/seq.csv"
    table.write_text("video,start_weather_coarse,start_timeofday_coarse\n007b-4e72,foggy,night\n")
    assert len(build(dataset_of({**options, "weather": "foggy", "daytime": "night"}, usual))) == 1
    with pytest.raises(ReservoirError, match=r"no sequence of SHIFT has .*'rainy'.*'foggy'"):
        build(dataset_of({**options, "weather": "rainy"}, usual))


def test_names_conditions_and_changes():
    usual = dict(type="ACDCDataset", data_root="x", condition="fog", pipeline=PIPELINE)
    assert dataset_of("night", usual) == {**usual, "condition": "night"}
    assert dataset_of(dict(name="dusk", data_root="y"), usual) == {**usual, "data_root": "y"}
    zurich = dataset_of("dark_zurich", usual)
    assert zurich == {**NAMED_SETS["dark_zurich"], "pipeline": PIPELINE}
    with pytest.raises(ReservoirError, match=r"no set 'bdd10k'.*bdd100k"):
        dataset_of(dict(name="n", set="bdd10k"), usual)


@pytest.mark.parametrize("domain", [1, None, "", ["fog"], {"name": 1}, {"data_root": "x"}])
def test_a_domain_without_a_name_is_refused(domain):
    with pytest.raises(
        ReservoirError, match=r"each domain of test_cfg.domains needs a unique name"
    ):
        domains_by_name(["fog", domain], "domains")


def test_a_type_of_its_own_shares_only_the_pipeline_and_gets_classes():
    usual = dict(type="ACDCDataset", condition="fog", data_root="acdc", pipeline=[1])
    prefix = dict(img_path="images", seg_map_path=None)
    found = dataset_of(dict(name="a", type="BaseSegDataset", data_prefix=prefix), usual)
    assert found.pop("metainfo")["classes"][:2] == ("road", "sidewalk")
    assert found == dict(type="BaseSegDataset", pipeline=[1], data_prefix=dict(img_path="images"))
    same = dataset_of(dict(name="b", type="ACDCDataset", condition="snow"), usual)
    assert same == {**usual, "condition": "snow"}
