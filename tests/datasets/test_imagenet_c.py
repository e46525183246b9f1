import shutil

import pytest
from image_files import values, write_image

from mmseg_reservoir.datasets import ImageNetC
from mmseg_reservoir.errors import ReservoirError

CLASSES = ("n01", "n02", "n03")


@pytest.fixture
def root(tmp_path):
    for place, corruption in enumerate(("fog", "snow")):
        for severity in (3, 5):
            for label, name in enumerate(CLASSES):
                for index in range(2):
                    value = 100 * place + 30 * label + 10 * index + 2 * severity
                    folder = tmp_path / corruption / str(severity) / name
                    write_image(folder / f"val_{index}.JPEG", value)
    return tmp_path


def make(root, **options):
    return ImageNetC(root, **{"corruptions": ["fog", "snow"], "crop": 8, "classes": 3, **options})


def test_labels_are_places_of_sorted_classes(root):
    snow = make(root).domain("snow")
    assert snow.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert values(snow.read(range(6))) == [110, 120, 140, 150, 170, 180]
    assert snow.read([0]).shape == (1, 3, 8, 8)


def test_severities(root):
    assert len(make(root, severity=3).domain("fog")) == 6
    assert make(root).domain("fog", 3).root.name == "3"


def test_an_image_list_sets_choice_and_order(root, tmp_path):
    names = tmp_path / "ids.txt"
    names.write_text("n03/val_1.JPEG\nn01/val_0.JPEG\n\nn02/val_0.JPEG 1\n")
    fog = make(root, image_list=names).domain("fog")
    assert fog.labels.tolist() == [2, 0, 1]
    assert values(fog.read([0, 1, 2])) == [80, 10, 40]


def test_wrong_lists(root, tmp_path):
    names = tmp_path / "ids.txt"
    with pytest.raises(ReservoirError, match=r"no image list .*ids.txt: get .*image_list=None"):
        make(root, image_list=names)
    names.write_text("val_1.JPEG\n")
    with pytest.raises(ReservoirError, match=r"one CLASS/NAME.JPEG per line, got 'val_1.JPEG'"):
        make(root, image_list=names)
    names.write_text("n09/val_1.JPEG\n")
    with pytest.raises(ReservoirError, match=r"names n09/val_1.JPEG, but .* has no such class"):
        make(root, image_list=names).domain("fog")


def test_missing_parts_are_named(root):
    with pytest.raises(ReservoirError, match=r"no .*frost; .* has fog, snow: unpack the archive"):
        make(root, corruptions=["fog", "frost"])
    shutil.rmtree(root / "fog/5/n02")
    with pytest.raises(ReservoirError, match="has 2 class folders, not 3, so labels would be wr"):
        make(root).domain("fog")
    with pytest.raises(ReservoirError, match="has 0 class folders"):
        make(root).domain("fog", 4)


def test_sizes(root):
    write_image(root / "fog/5/n01/val_1.JPEG", 50, size=(8, 12))
    with pytest.raises(ReservoirError, match=r"differ in size .* set resize and crop"):
        make(root, crop=None).domain("fog").read([0, 1])
    assert make(root).domain("fog").read([0, 1]).shape == (2, 3, 8, 8)
    assert make(root, resize=(6, 6), crop=None).domain("fog").read([0, 1]).shape[2:] == (6, 6)
