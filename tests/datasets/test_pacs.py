import shutil

import pytest
from image_files import values, write_image

from mmseg_reservoir.datasets import PACS
from mmseg_reservoir.datasets.pacs import CLASSES
from mmseg_reservoir.errors import ReservoirError


@pytest.fixture
def root(tmp_path):
    for place, domain in enumerate(("photo", "art_painting", "cartoon", "sketch")):
        suffix = ".png" if domain == "sketch" else ".jpg"
        for label, name in enumerate(CLASSES):
            write_image(tmp_path / domain / name / f"1{suffix}", 10 + 60 * place + 10 * label)
    return tmp_path


def test_domains_and_labels(root):
    data = PACS(root, domains=["sketch", "photo"], resize=(6, 4))
    assert data.names == ("sketch", "photo")
    assert data.classes == 7
    for name, first in (("photo", 10), ("sketch", 190)):
        images = data.domain(name)
        assert images.labels.tolist() == list(range(7))
        assert values(images.read(range(7))) == [first + 10 * i for i in range(7)]
    assert data.domain("photo").read([0]).shape == (1, 3, 6, 4)


def test_other_files_are_left_alone(root):
    (root / "photo/dog/Thumbs.db").write_bytes(b"x")
    (root / "photo/dog/.hidden.jpg").write_bytes(b"x")
    assert len(PACS(root).domain("photo")) == 7


def test_missing_classes_are_an_error(root):
    shutil.rmtree(root / "cartoon/horse")
    with pytest.raises(
        ReservoirError, match=r"cartoon must have the folders dog, .*it has dog, el"
    ):
        PACS(root)
    assert len(PACS(root, domains=["photo"]).domain("photo")) == 7
