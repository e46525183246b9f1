import doctest

import pytest
import torch

from mmseg_reservoir.datasets import corruptions
from mmseg_reservoir.datasets.base import SEVERITIES
from mmseg_reservoir.datasets.corruptions import CORRUPTIONS, corrupt
from mmseg_reservoir.errors import ReservoirError


def pictures(count=6, size=32):
    """Coloured clouds with a bright square in each."""
    generator = torch.Generator().manual_seed(0)
    images = 0.1 + 0.6 * corruptions._smooth_noise(count, 3, (size, size), generator, octaves=5)
    images[:, :, size // 4 : size // 2, size // 4 : size // 2] = 0.9
    return images


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_severity_is_farther_from_the_clean_image(name):
    clean = pictures()
    found = [corrupt(clean, name, severity) for severity in SEVERITIES]
    distances = [float((image - clean).abs().mean()) for image in found]
    assert distances == sorted(distances)
    assert distances[0] > 0.002
    assert distances[-1] > 1.5 * distances[0]
    for images in found:
        assert images.shape == clean.shape
        assert images.dtype == torch.float32
        assert images.min() >= 0
        assert images.max() <= 1


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_seed_alone_decides(name):
    clean = pictures(3)
    before = clean.clone()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = corrupt(clean, name, 3, seed=5)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, corrupt(clean, name, 3, seed=5))
    assert torch.equal(clean, before)
    free_of_chance = {"defocus_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}
    assert torch.equal(first, corrupt(clean, name, 3, seed=6)) == (name in free_of_chance)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_other_sizes(name):
    clean = pictures(2, size=48)[:, :, :40]
    assert corrupt(clean, name, 5).shape == (2, 3, 40, 48)


def test_what_they_do():
    clean = pictures()
    worst = {name: corrupt(clean, name, 5) for name in CORRUPTIONS}

    def edges(images):
        return float(images.diff(dim=3).abs().mean())

    for name in ("gaussian_noise", "shot_noise", "impulse_noise"):
        assert edges(worst[name]) > 1.5 * edges(clean)
    for name in ("defocus_blur", "motion_blur", "fog", "contrast", "pixelate"):
        assert edges(worst[name]) < 0.9 * edges(clean)
    for name in ("brightness", "fog", "snow"):
        assert worst[name].mean() > clean.mean() + 0.1
    assert torch.allclose(worst["contrast"].mean((2, 3)), clean.mean((2, 3)), atol=1e-5)
    blocks = worst["pixelate"].unfold(2, 4, 4).unfold(3, 4, 4).flatten(4)
    assert (blocks.amax(-1) - blocks.amin(-1)).max() < 1e-6


def test_each_image_moves_in_its_own_direction():
    point = torch.zeros(8, 3, 33, 33)
    point[:, :, 16, 16] = 1
    moved, unfocused = corrupt(point, "motion_blur", 5), corrupt(point, "defocus_blur", 5)
    assert len({tuple(image.flatten().tolist()) for image in moved}) == 8
    assert len({tuple(image.flatten().tolist()) for image in unfocused}) == 1
    # Light is spread, not lost.
    assert torch.allclose(moved.sum((2, 3)), torch.ones(8, 3), atol=1e-4)


def test_grey_stays_grey_where_colour_has_no_part():
    grey = torch.full((2, 3, 32, 32), 0.4)
    for name in ("defocus_blur", "motion_blur", "elastic_transform", "pixelate", "contrast"):
        assert torch.allclose(corrupt(grey, name, 5), grey, atol=1e-5)


def test_clear_errors():
    clean = pictures(1)
    with pytest.raises(ReservoirError, match="did you mean 'fog'"):
        corrupt(clean, "fogg")
    with pytest.raises(ReservoirError, match="severity must be 1, 2, 3, 4 or 5, got 0"):
        corrupt(clean, "fog", 0)
    with pytest.raises(ReservoirError, match=r"floats \(N, 3, H, W\), got torch.uint8"):
        corrupt((clean * 255).byte(), "fog")


def test_the_example():
    assert doctest.testmod(corruptions, extraglobs={"torch": torch}).failed == 0
