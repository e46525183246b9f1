import io

import numpy as np
import pytest
import torch
from image_files import values, write_image
from PIL import Image

from mmseg_reservoir.datasets import build_source
from mmseg_reservoir.datasets.pictures import Preprocess
from mmseg_reservoir.errors import ReservoirError


def gradient(height, width):
    """A lossless picture whose red grows to the right and green downwards."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.arange(width)
    pixels[..., 1] = np.arange(height)[:, None]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    file.seek(0)
    return file


def test_as_it_is():
    image = Preprocess()(gradient(3, 5))
    assert image.shape == (3, 3, 5)
    assert torch.allclose(image[0, 0] * 255, torch.arange(5.0))


def test_the_centre():
    image = Preprocess(crop=4)(gradient(10, 20)) * 255
    assert torch.allclose(image[0, 0], torch.arange(8.0, 12.0))
    assert torch.allclose(image[1, :, 0], torch.arange(3.0, 7.0))


@pytest.mark.parametrize(
    ("resize", "shape"), [(8, (8, 16)), ((6, 7), (6, 7)), (None, (10, 20)), (10, (10, 20))]
)
def test_resize(resize, shape):
    assert Preprocess(resize)(gradient(10, 20)).shape[1:] == shape


def test_grey_pictures_become_rgb(tmp_path):
    Image.new("L", (4, 4), 51).save(tmp_path / "grey.png")
    image = Preprocess()(tmp_path / "grey.png")
    assert image.shape == (3, 4, 4)
    assert torch.allclose(image, torch.tensor(0.2))


def test_clear_errors(tmp_path):
    write_image(tmp_path / "small.png", 0)
    with pytest.raises(ReservoirError, match=r"8 x 8, too small to cut 9 x 9 .* set resize=9"):
        Preprocess(crop=9)(tmp_path / "small.png")
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(ReservoirError, match=r"bad.jpg cannot be decoded .*reservoir check"):
        Preprocess()(tmp_path / "bad.jpg")
    with pytest.raises(ReservoirError, match="filter must be one of bilinear, bicubic"):
        Preprocess(filter="lanczos")


def test_a_folder_of_images(tmp_path):
    for label, name in enumerate(("a", "b")):
        write_image(tmp_path / name / "x.JPEG", 50 + 100 * label, size=(10, 14))
    images = build_source(dict(type="image_folder", root=tmp_path, resize=8, crop=6))
    assert images.labels.tolist() == [0, 1]
    assert values(images.read([1, 0])) == [150, 50]
    assert images.read([0]).shape == (1, 3, 6, 6)
    with pytest.raises(ReservoirError, match=r"there are no images in .*absent"):
        build_source(dict(type="image_folder", root=tmp_path / "absent"))


def test_the_manifest_tells_other_files_from_these(tmp_path):
    for name in ("a", "b"):
        write_image(tmp_path / name / "x.png", 50)
    images = build_source(dict(type="image_folder", root=tmp_path))
    before = images.manifest()
    assert build_source(dict(type="image_folder", root=tmp_path)).manifest() == before
    with (tmp_path / "a" / "x.png").open("ab") as file:
        file.write(b"!")
    larger = images.manifest()
    (tmp_path / "a" / "x.png").unlink()
    assert len({before, larger, images.manifest()}) == 3
    images.labels = images.labels[::-1]
    assert images.manifest() not in (before, larger)
