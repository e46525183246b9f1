"""The published numbers, and that the folders are those that the datasets read."""

import json
import shutil

import pytest

from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.check.survey import list_files
from mmseg_reservoir.errors import ReservoirError


def totals(name, root=None):
    counts = {}
    for cell in LAYOUTS[name].cells(root):
        counts[cell.split] = counts.get(cell.split, 0) + cell.expected
    return counts


def test_published_numbers():
    assert totals("acdc") == {"train": 1600, "val": 406, "test": 2000}
    assert totals("cityscapes") == {"train": 2975, "val": 500, "test": 1525}
    assert totals("dark_zurich") == {"val": 50}
    assert totals("foggy_cityscapes") == {"train": 2975, "val": 500}
    assert totals("bdd100k") == {"train": 7000, "val": 1000}
    acdc = {cell.name: cell.expected for cell in LAYOUTS["acdc"].cells(None)}
    assert {acdc[f"train/{c}"] for c in ("fog", "night", "rain", "snow")} == {400}
    assert (acdc["val/night"], acdc["val/fog"]) == (106, 100)


def test_minicity_expects_what_it_was_written_with(minicity):
    survey = list_files(LAYOUTS["minicity"], minicity)
    assert totals("minicity", minicity) == {"train": 8 + 4 * 3, "val": 2 + 4 * 1}
    for files in survey.cells:
        assert len(files.images) == len(files.pairs) == files.cell.expected


@pytest.mark.parametrize("text", ["", "{}", '{"counts": 3}', json.dumps({"counts": {"fog": 1}})])
def test_a_damaged_description_is_an_error(minicity, tmp_path, text):
    shutil.copytree(minicity, tmp_path / "copy")
    (tmp_path / "copy" / "minicity.json").write_text(text)
    with pytest.raises(
        ReservoirError, match=r"minicity.json is damaged .* write the data set again"
    ):
        list_files(LAYOUTS["minicity"], tmp_path / "copy")


def test_cityscapes_pairs_by_city(tmp_path):
    for path in (
        "leftImg8bit/train/ulm/ulm_000000_000019_leftImg8bit.png",
        "gtFine/train/ulm/ulm_000000_000019_gtFine_labelTrainIds.png",
        "gtFine/train/ulm/ulm_000000_000019_gtFine_labelIds.png",
        "gtFine/train/ulm/ulm_000000_000019_gtFine_polygons.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    train = list_files(LAYOUTS["cityscapes"], tmp_path).cells[0]
    assert train.pairs == ["ulm/ulm_000000_000019"]
    assert train.raw == {"ulm/ulm_000000_000019"}
    assert train.others == ()
