import numpy as np
import pytest

from benchmarks.corruptions import CORRUPTIONS, digits


@pytest.fixture(scope="module")
def images():
    return digits()[1][:20]


def test_digits_in_two_halves():
    first, second = digits()
    assert first.shape == (899, 32, 32, 3)
    assert second.shape == (898, 32, 32, 3)
    assert first.min() == 0
    assert first.max() > 200
    again, _ = digits()
    assert np.array_equal(first, again)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupted_images_are_images_and_repeatable(images, name):
    before = images.copy()
    found = CORRUPTIONS[name](images)
    assert found.shape == images.shape
    assert found.dtype == np.float32
    assert found.min() >= 0
    assert found.max() <= 255
    assert np.abs(found - images).mean() > 1
    assert np.array_equal(found, CORRUPTIONS[name](images))
    assert np.array_equal(before, images)


def test_what_corruptions_do(images):
    found = {name: change(images) for name, change in CORRUPTIONS.items()}
    spread = {name: value.std() for name, value in found.items()}
    edges = {name: np.abs(np.diff(value, axis=2)).mean() for name, value in found.items()}
    assert spread["contrast"] < images.std() / 2
    assert found["brightness"].mean() > images.mean() + 40
    assert edges["blur"] < np.abs(np.diff(images, axis=2)).mean() < edges["noise"]
    blocks = found["pixelate"].reshape(20, 8, 4, 8, 4, 3)
    assert np.ptp(blocks, axis=(2, 4)).max() == 0
    assert found["fog"].min(axis=(1, 2, 3)).mean() > 5
