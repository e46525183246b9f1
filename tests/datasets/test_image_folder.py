import pytest
from image_files import values, write_image

from mmseg_reservoir.datasets import build_source
from mmseg_reservoir.errors import ReservoirError


def test_a_folder_of_images(tmp_path):
    for label, name in enumerate(("a", "b")):
        write_image(tmp_path / name / "x.JPEG", 50 + 100 * label, size=(10, 14))
    images = build_source(dict(type="image_folder", root=tmp_path, resize=8, crop=6))
    assert images.labels.tolist() == [0, 1]
    assert values(images.read([1, 0])) == [150, 50]
    assert images.read([0]).shape == (1, 3, 6, 6)
    with pytest.raises(ReservoirError, match=r"there are no images in .*absent"):
        build_source(dict(type="image_folder", root=tmp_path / "absent"))
